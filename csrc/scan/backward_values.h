// First pass of the backward scan: du, and with it the gradients of values, write and erase.
//
//   H_t = G_t + dy_t q_tᵀ ;   du_t = H_t k_t ;   dr_t = -a_t du_t ;   G_{t-1} = (H_t + dr_t e_tᵀ) diag(g_t)
//
// This is the forward scan with time reversed: a tile of value columns of the gradient, held as rows of keys, is written with
// (q, dy), retrieved from with k and erased with e. Columns do not depend on each other.
#pragma once

#include "scan/between.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real, int Vectors, int Rows, Decay Kind>
class ValuesPass {
  public:
    static constexpr Index kWidth = Vectors * kLanes<Real>;

    ValuesPass(const HeadBackward<Real>& whole, const Between<Real>& results, Index which, Real* memory)
        : head(whole), between(results), tile_index(which), first_column(which * tile_width<Real>(whole.key_dim)),
          columns_left(std::min<Index>(kWidth, whole.value_dim - first_column)), lookups(whole.lookups ? whole.lookups : whole.keys),
          lookup_step(whole.lookups ? whole.lookup_step : whole.key_step), gradient(memory) {}

    // G of the sequence's last step.
    void begin() {
        std::memset(gradient, 0, static_cast<std::size_t>(head.key_dim * kWidth) * sizeof(Real));
        if (head.grad_final)
            transpose(gradient, kWidth, head.grad_final + first_column * head.key_dim, head.key_dim, columns(), head.key_dim);
    }

    void run(Index first, Index count) {
        Tile<Real, Vectors, Rows> tile(gradient, head.key_dim);
        pending = 1;
        for (Index step = first + count - 1; step >= first; --step) {
            fetch(std::max<Index>(step - 8, 0));
            Vector<Real> grad_read[Vectors], grad_update[Vectors];
            load_columns<Real, Vectors>(grad_read, head.grad_reads + step * head.grad_read_step + first_column, columns());
            if (step == first + count - 1)
                write_retrieve<false, Decay::None>(tile, step, grad_read, grad_update);
            else
                erase_write_retrieve(tile, step, grad_read, grad_update);
            leave(step, grad_update);
        }
        erase(tile, first);
        tile.save();
    }

  private:
    const HeadBackward<Real>& head;
    const Between<Real>& between;
    const Index tile_index, first_column, columns_left;
    const Real* const lookups;
    const Index lookup_step;
    Real* const gradient;
    Real pending;                             // the gradient is this times the tile
    Vector<Real> grad_retrieved[Vectors];     // of the step after

    // Known to the compiler where the tile is in registers.
    FASTWEIGHTS_INLINE Index columns() const { return Rows ? kWidth : columns_left; }
    FASTWEIGHTS_INLINE Index key_dim() const { return Rows ? Rows : head.key_dim; }

    FASTWEIGHTS_INLINE void fetch(Index step) const {
        fetch_to_read(head.keys + step * head.key_step, key_dim());
        fetch_to_read(head.queries + step * head.query_step, key_dim());
        if (head.lookups) fetch_to_read(lookups + step * lookup_step, key_dim());
        if (Kind == Decay::Channel) fetch_to_read(head.decay + step * head.decay_step, key_dim());
        fetch_to_read(head.grad_reads + step * head.grad_read_step + first_column, columns());
        fetch_to_read(head.values + step * head.value_step + first_column, columns());
        fetch_to_read(head.retrieved + step * head.value_dim + first_column, columns());
        fetch_to_write(head.grad_values + step * head.grad_value_step + first_column, columns());
    }

    // H = (pending G + dr eᵀ) diag(g) + dy qᵀ, with e and g of the step after, and du = H k
    template <bool Follows, Decay Shrinks>
    FASTWEIGHTS_INLINE void write_retrieve(Tile<Real, Vectors, Rows>& tile, Index step, const Vector<Real> (&grad_read)[Vectors],
                                           Vector<Real> (&grad_update)[Vectors]) {
        const Real *query = head.queries + step * head.query_step, *key = head.keys + step * head.key_step;
        const Real* lookup = Follows ? lookups + (step + 1) * lookup_step : nullptr;
        const Real* decays = Shrinks == Decay::None ? nullptr : head.decay + (step + 1) * head.decay_step;
        const Real scale = pending;
        Vector<Real> retrieved[Vectors];
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) retrieved[part] = grad_retrieved[part];
        RowSum<Real, Vectors, Rows> sums;
        const auto write_row = [&](Index row, int, Vector<Real>(&weights)[Vectors]) __attribute__((always_inline)) {
            const Vector<Real> written = broadcast(query[row]);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) weights[part] += written * grad_read[part];
        };
        // Without decay between them, writing need not wait for dr.
        if constexpr (Rows > 0 && Shrinks == Decay::None) tile.visit(write_row);
        tile.visit([&](Index row, int chain, Vector<Real>(&weights)[Vectors]) __attribute__((always_inline)) {
            const Vector<Real> asked = broadcast(key[row]), erased = broadcast(Follows ? lookup[row] : Real(0));
            if (!Rows && Shrinks == Decay::None) write_row(row, chain, weights);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) {
                if (Shrinks == Decay::Head) weights[part] *= scale;
                if (Follows) weights[part] += erased * retrieved[part];
                if (Shrinks != Decay::None) weights[part] *= decays[Shrinks == Decay::Channel ? row : 0];
            }
            if (Shrinks != Decay::None) write_row(row, chain, weights);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) sums.chains[chain][part] += asked * weights[part];
        });
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) grad_update[part] = sums.total(part);
    }

    // A decay per head is postponed as in the forward scan.
    FASTWEIGHTS_INLINE void erase_write_retrieve(Tile<Real, Vectors, Rows>& tile, Index step, const Vector<Real> (&grad_read)[Vectors],
                                                 Vector<Real> (&grad_update)[Vectors]) {
        if constexpr (Kind != Decay::Head) return write_retrieve<true, Kind>(tile, step, grad_read, grad_update);
        const Real decay = head.decay[(step + 1) * head.decay_step], later = decay * pending;
        if (!Rows && later >= Real(kLeastPending) && decay <= 1 && may_be_divided<Real, Vectors>(grad_retrieved) &&
            may_be_divided<Real, Vectors>(grad_read)) {
            const Real before = 1 / pending, after = 1 / later;
            Vector<Real> scaled[Vectors];
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) grad_retrieved[part] *= before, scaled[part] = after * grad_read[part];
            write_retrieve<true, Decay::None>(tile, step, scaled, grad_update);
            pending = later;
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) grad_update[part] *= pending;
        } else {
            write_retrieve<true, Decay::Head>(tile, step, grad_read, grad_update);
            pending = 1;
        }
    }

    // G before step `step`
    FASTWEIGHTS_INLINE void erase(Tile<Real, Vectors, Rows>& tile, Index step) {
        const Real* lookup = lookups + step * lookup_step;
        const Real* decays = Kind == Decay::None ? nullptr : head.decay + step * head.decay_step;
        const Real scale = pending;
        tile.visit([&](Index row, int, Vector<Real>(&weights)[Vectors]) __attribute__((always_inline)) {
            const Vector<Real> erased = broadcast(lookup[row]);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) {
                if (Kind == Decay::Head) weights[part] *= scale;
                weights[part] += erased * grad_retrieved[part];
                if (Kind != Decay::None) weights[part] *= decays[Kind == Decay::Channel ? row : 0];
            }
        });
    }

    // dv, da, db, and for the second pass u and dr
    FASTWEIGHTS_INLINE void leave(Index step, const Vector<Real> (&grad_update)[Vectors]) {
        const Real erase = head.erase[step * head.erase_step], write = head.write[step * head.write_step];
        const Index place = tile_index * between.steps + step - between.first_step;
        Vector<Real> value[Vectors], retrieved[Vectors], update[Vectors], grad_value[Vectors];
        load_columns<Real, Vectors>(value, head.values + step * head.value_step + first_column, columns());
        load_columns<Real, Vectors>(retrieved, head.retrieved + step * head.value_dim + first_column, columns());
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) {
            update[part] = write * value[part] - erase * retrieved[part];
            grad_value[part] = write * grad_update[part];
            grad_retrieved[part] = -erase * grad_update[part];
        }
        store_columns<Real, Vectors>(head.grad_values + step * head.grad_value_step + first_column, grad_value, columns());
        store_columns<Real, Vectors>(between.update_of(step) + first_column, update, kWidth);
        store_columns<Real, Vectors>(between.grad_retrieved_of(step) + first_column, grad_retrieved, kWidth);
        between.grad_write[place] = dot_columns<Real, Vectors>(value, grad_update, columns());
        between.grad_erase[place] = -dot_columns<Real, Vectors>(retrieved, grad_update, columns());
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
