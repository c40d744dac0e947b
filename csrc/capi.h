// What one call of a kernel is made of, and what every instruction set offers. The fast-weight scan is
//
//   W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ        y_t = W_t q_t
//
// These structures are the C interface: callers fill them as a row of 64-bit integers (pointers included).
#pragma once

#include <cstdint>

namespace fastweights {

// b h t · with any distances, counted in elements; the last dimension is contiguous. `data` may be null where a tensor is optional.
struct Sequence {
    void* data;
    std::int64_t batch, head, time;
};

struct ScanShape {
    std::int64_t batch, heads, steps, key_dim, value_dim;
    std::int64_t checkpoint_every;  // distance in steps between the states saved for the backward pass: a multiple of kChunk
};

constexpr std::int64_t kChunk = 16;  // steps that the backward pass treats as one

struct ScanInputs {
    Sequence queries, keys, values;  // b h t k, b h t k, b h t v
    Sequence erase, write;           // b h t
    Sequence decay;                  // b h t, or b h t k if per_channel; may be absent
    std::int64_t per_channel;
    Sequence lookups;                // b h t k: e; the keys if absent
    void* weights;                   // b h v k, contiguous; zeros if absent
};

struct ScanForward {
    ScanShape shape;
    ScanInputs inputs;
    Sequence reads;       // b h t v
    void* final_weights;  // b h v k, contiguous
    void* retrieved;      // b h t v, contiguous: W_{t-1} (g_t ∘ e_t), for the backward pass; absent if no gradient is needed
    void* checkpoints;    // b h n v k, contiguous: W after checkpoint_every, 2 checkpoint_every, ... < t steps; absent likewise
};

struct ScanBackward {
    ScanShape shape;
    ScanInputs inputs;
    void *retrieved, *checkpoints;
    Sequence grad_reads;                                    // b h t v
    void* grad_final_weights;                               // b h v k, contiguous; zeros if absent
    Sequence grad_queries, grad_keys, grad_values;          // as their inputs
    Sequence grad_erase, grad_write;                        // b h t
    Sequence grad_decay, grad_lookups;                      // as their inputs, and absent with them
    void* grad_weights;                                     // b h v k, contiguous
};

// A feature map of every row of x: φ(x), or φ(x) / Σ_j φ(x)_j. ELU+1 (features/elu.h) has nothing more to say.
struct FeatureRows {
    std::int64_t batch, heads, steps, input_dim;
    std::int64_t divide_by_sum;  // 0 or 1
    Sequence inputs;             // b h t d
    Sequence features;           // b h t k: the result, or its gradient
    Sequence grad_inputs;        // b h t d; absent in the forward pass
};

// DPFP (features/dpfp.h), k = 2dν.
struct DpfpRows {
    FeatureRows rows;
    std::int64_t shifts;  // ν
};

struct AttentionShape {
    std::int64_t batch, heads;
    std::int64_t queries, steps, input_dim, value_dim, features;  // at least one of each
    std::int64_t causal;  // 0 or 1
    double vanishing;     // sums up to here count as zero
};

// Attention by the kernel φ(q)·φ(k) over a short sequence (attention/kernel_attention.h).
struct AttentionCall {
    AttentionShape shape;
    std::int64_t map;         // 0: DPFP, 1: ELU+1, 2: FAVOR+
    std::int64_t parameter;   // ν of DPFP, the m of FAVOR+
    void *rows, *columns;     // FAVOR+: its random rows times d^-¼, and their transpose, both with rows of whole vectors
    std::int64_t row, column; // distances between those rows
    double squared_factor;    // FAVOR+: d^-½
    Sequence queries, keys, values;  // b h t d, b h s d, b h s v
    void* mask;                      // b s, bytes; absent if every step is real
    Sequence reads;                  // b h t v
    void *weights, *inverse;         // b h t s and b h t, contiguous: for the backward pass; absent if no gradient is needed
    Sequence grad_reads;             // absent in the forward pass
    Sequence grad_queries, grad_keys, grad_values;
};

// One head is cut into tiles of value columns (rows of W), which do not depend on each other.
struct Kernels {
    std::int64_t (*forward_tiles)(const ScanShape&);
    std::int64_t (*forward_workspace)(const ScanShape&);  // bytes for each thread, aligned to 64
    void (*forward)(const ScanForward&, std::int64_t batch, std::int64_t head, std::int64_t tile, void* workspace);
    std::int64_t (*backward_workspace)(const ScanShape&, std::int64_t tile_columns, bool channels);
    // columns [first, first + columns) of one head; gradients that sum over columns are those of this tile alone
    void (*backward)(const ScanBackward&, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t columns,
                     void* workspace);
    // steps [first, first + count) of one head
    std::int64_t (*dpfp_workspace)(const DpfpRows&);
    void (*dpfp)(const DpfpRows&, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t count, void* workspace);
    void (*elu_plus_one)(const FeatureRows&, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t count);
    std::int64_t (*attention_workspace)(const AttentionCall&);
    void (*attention)(const AttentionCall&, std::int64_t batch, std::int64_t head, void* workspace);
};

}  // namespace fastweights
