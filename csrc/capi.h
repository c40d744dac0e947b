// What one call of a kernel is made of, and what every instruction set offers. The fast-weight scan is
//
//   W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ        y_t = W_t q_t
//
// These structures are the C interface: callers fill them as a row of 64-bit integers (pointers included).
#pragma once

#include <cstdint>

namespace fastweights {

// Another number whenever a function, a structure or what its fields may hold changes; the caller (kernels/native/library.py) names the same.
constexpr int kInterface = 3;

// b h t · with any distances, counted in elements; the last dimension is contiguous. `data` may be null where a tensor is optional.
struct Sequence {
    void* data;
    std::int64_t batch, head, time;
};

struct ScanShape {
    std::int64_t batch, heads, steps, key_dim, value_dim;
    std::int64_t checkpoint_every;  // distance in steps between the states saved for the backward pass: a multiple of kChunk
};

constexpr std::int64_t kChunk = 16;  // steps that the backward pass treats as one, or keeps W of

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
    void* grad_weights;                                     // b h v k, contiguous; absent if nobody asks for it
};

// A feature map of every row of x, normalised or not. ELU+1 (features/elu.h) has nothing more to say.
struct FeatureRows {
    std::int64_t batch, heads, steps, input_dim;
    std::int64_t normalise;      // 0: not at all, 1: by the sum, 2: to length 1, 3: to length 1 without the mean
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

// Few rows through a linear layer (generation/linear_rows.h):  y = x Wᵀ + b, or relu of it.
struct LinearRows {
    std::int64_t rows, inner, outputs;
    void *x, *weights, *bias, *y;  // rows × inner, outputs × inner, outputs (may be absent), rows × outputs
    std::int64_t x_row, weight_row, y_row;
    std::int64_t relu;  // 0 or 1
};

// Layer norm of x + added (generation/norm_rows.h); all contiguous. Without weight: the sum alone.
struct NormRows {
    std::int64_t rows, width;
    void *x, *added, *weight, *bias, *y;  // added and bias may be absent
    double epsilon;
};

// One step of a layer from its input to its output (generation/attention_step.h), in generation; all contiguous.
struct AttentionStep {
    std::int64_t batch, model_dim, heads, key_dim, feature_dim, value_dim;
    std::int64_t map, parameter, normalise;  // 0: DPFP with ν, 1: ELU+1; as in FeatureRows
    std::int64_t has_strength;               // 1: the delta rule, 0: the sum rule
    double largest_strength;
    void* strength_bias;                     // one number per head; may be absent
    double read_scale;
    void *x, *projection, *output, *y;       // b model, rows × model, model × (heads · values), b model
    void *weights, *final_weights;           // b h v k
};

// What follows attention in a block:  x ← norm(x + read) ;   y = norm(x + W₂ relu(W₁ x + b₁) + b₂)   or, with pre_norm,
// x ← x + read ;   y = x + W₂ relu(W₁ norm(x) + b₁) + b₂.  All contiguous.
struct FeedForwardStep {
    std::int64_t batch, model_dim, hidden_dim, pre_norm;
    void *x, *read, *y;                                            // b model
    void *attention_weight, *attention_bias, *weight, *bias;       // of the two norms; those of attention are not used with pre_norm
    double attention_epsilon, epsilon;
    void *first, *first_bias, *second, *second_bias;
};

// Heads and tiles of one batch row that a thread computes together.
struct Share {
    std::int64_t first_head, heads, first_tile, tiles;
};

// What the backward pass needs: bytes for each head of a share, for each thread, for each head in parts, and the tiles of its passes.
struct BackwardSizes {
    std::int64_t state, scratch, between, value_tiles, key_tiles;
};

// A head in parts: all tiles of the first pass, then all of the second, then the sums over tiles.
enum class BackwardPart { Values, Keys, Sums };

// One head is cut into tiles of columns, which do not depend on each other.
struct Kernels {
    std::int64_t (*forward_tiles)(const ScanShape&);
    std::int64_t (*forward_workspace)(const ScanForward&, std::int64_t heads, std::int64_t tiles);  // bytes
    void (*forward)(const ScanForward&, std::int64_t batch, const Share&, void* workspace);
    BackwardSizes (*backward_sizes)(const ScanShape&);
    void (*backward)(const ScanBackward&, std::int64_t batch, const Share&, void* workspace);
    // `between`: memory through which the parts of all heads speak to each other
    void (*backward_part)(const ScanBackward&, std::int64_t batch, std::int64_t head, BackwardPart part, std::int64_t tile, void* between,
                          void* workspace);
    // In chunks, columns [first, first + columns) of one head; gradients that sum over columns are those of this tile alone.
    std::int64_t (*chunks_workspace)(const ScanShape&, std::int64_t tile_columns, bool channels);
    void (*backward_chunks)(const ScanBackward&, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t columns,
                            void* workspace);
    // One head of a short sequence that begins with an empty memory.
    std::int64_t (*short_forward_workspace)(const ScanForward&);
    void (*short_forward)(const ScanForward&, std::int64_t batch, std::int64_t head, void* workspace);
    std::int64_t (*short_backward_workspace)(const ScanBackward&);
    void (*short_backward)(const ScanBackward&, std::int64_t batch, std::int64_t head, void* workspace);
    // steps [first, first + count) of one head
    std::int64_t (*dpfp_workspace)(const DpfpRows&);
    void (*dpfp)(const DpfpRows&, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t count, void* workspace);
    void (*elu_plus_one)(const FeatureRows&, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t count);
    std::int64_t (*attention_workspace)(const AttentionCall&);
    void (*attention)(const AttentionCall&, std::int64_t batch, std::int64_t head, void* workspace);
    void (*linear)(const LinearRows&, std::int64_t first, std::int64_t count);  // outputs [first, first + count)
    void (*norm)(const NormRows&);
    std::int64_t (*attention_step_workspace)(const AttentionStep&);
    // false if something is not finite
    bool (*attention_step)(const AttentionStep&, const void* projected, void* reads, std::int64_t batch, std::int64_t head, void* workspace);
};

}  // namespace fastweights
