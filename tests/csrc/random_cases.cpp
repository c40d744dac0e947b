// Random calls through the C interface, with buffers of exactly the promised size. Built with sanitizers by test_sanitizers.py:
// a read or write outside a buffer, an undefined operation or a result that is not written ends the program.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "capi.h"
#include "tensor_view.h"

using namespace fastweights;

extern "C" {
int fastweights_use_level(const char*);
int fastweights_scan_forward(const ScanForward*, std::int64_t, std::int64_t);
int fastweights_scan_backward(const ScanBackward*, std::int64_t, std::int64_t);
int fastweights_dpfp(const DpfpRows*, std::int64_t, std::int64_t);
int fastweights_elu_plus_one(const FeatureRows*, std::int64_t, std::int64_t);
int fastweights_kernel_attention(const AttentionCall*, std::int64_t, std::int64_t);
int fastweights_linear(const LinearRows*, std::int64_t, std::int64_t);
int fastweights_attention_step(const AttentionStep*, std::int64_t, std::int64_t);
int fastweights_feed_forward_step(const FeedForwardStep*, std::int64_t, std::int64_t);
int fastweights_step(const TensorExchange*, std::int64_t, void*, void*, void*, void*, void*, void*, void*, void*, int, void*, int, void*);
}

namespace {

using Index = std::int64_t;

std::mt19937 generator(1);

Index pick(std::initializer_list<Index> choices) {
    return choices.begin()[std::uniform_int_distribution<std::size_t>(0, choices.size() - 1)(generator)];
}

// b h t · in one of three orders of memory, some of them with a gap after each row.
template <class Real>
struct Tensor {
    std::vector<Real> data;
    Index batch, head, time, columns, batches, heads, steps;

    Tensor(Index b, Index h, Index t, Index c, bool result) : columns(c), batches(b), heads(h), steps(t) {
        const Index row = c + (result ? 0 : pick({0, 0, 3}));
        if (pick({0, 1}))
            time = row, head = t * row, batch = h * t * row;
        else
            head = row, time = h * row, batch = t * h * row;
        const bool empty = b * h * t * c == 0;
        data.resize(static_cast<std::size_t>(empty ? 0 : (b - 1) * batch + (h - 1) * head + (t - 1) * time + c));
        std::uniform_real_distribution<Real> uniform(0, Real(1) / std::sqrt(Real(c)));
        for (Real& x : data) x = result ? std::nan("") : uniform(generator);
    }

    Sequence sequence() { return {data.data(), batch, head, time}; }

    void check(const char* name) const {
        for (Index b = 0; b < batches; ++b)
            for (Index h = 0; h < heads; ++h)
                for (Index t = 0; t < steps; ++t)
                    for (Index c = 0; c < columns; ++c)
                        if (!std::isfinite(data[static_cast<std::size_t>(b * batch + h * head + t * time + c)])) {
                            std::printf("%s is not written at %d %d %d %d\n", name, int(b), int(h), int(t), int(c));
                            std::exit(1);
                        }
    }
};

template <class Real>
void scan_case() {
    const Index b = pick({0, 1, 2, 3}), h = pick({0, 1, 2, 9}), t = pick({0, 1, 2, 7, 16, 17, 40, 130});
    const Index k = pick({0, 1, 3, 8, 16, 17, 33, 64}), v = pick({0, 1, 2, 3, 4, 5, 16, 31, 33, 65}), threads = pick({1, 2, 4});
    const bool decay = pick({0, 1}), channels = decay && pick({0, 1}), lookups = pick({0, 1}), start = pick({0, 1}), end = pick({0, 1});
    const bool asked = start || pick({0, 1});  // for the gradient of the weights
    const ScanShape shape{b, h, t, k, v, pick({16, 32, 128})};
    const Index checkpoints = t > 0 ? (t - 1) / shape.checkpoint_every : 0;
    Tensor<Real> queries(b, h, t, k, false), keys(b, h, t, k, false), values(b, h, t, v, false), grad_reads(b, h, t, v, false);
    Tensor<Real> erase(b, h, t, 1, false), write(b, h, t, 1, false), decays(b, h, t, channels ? k : 1, false), looked_up(b, h, t, k, false);
    if (pick({0, 1})) std::fill(decays.data.begin(), decays.data.end(), Real(0));
    std::vector<Real> weights(static_cast<std::size_t>(b * h * v * k), 1), final_weights(weights.size(), std::nan(""));
    std::vector<Real> retrieved(static_cast<std::size_t>(b * h * t * v)), states(static_cast<std::size_t>(checkpoints) * weights.size());
    std::vector<Real> grad_weights(weights.size(), std::nan(""));
    Tensor<Real> reads(b, h, t, v, true), dq(b, h, t, k, true), dk(b, h, t, k, true), dv(b, h, t, v, true);
    Tensor<Real> da(b, h, t, 1, true), db(b, h, t, 1, true), dg(b, h, t, channels ? k : 1, true), de(b, h, t, k, true);
    const Sequence absent{nullptr, 0, 0, 0};
    const ScanInputs inputs{queries.sequence(), keys.sequence(), values.sequence(), erase.sequence(), write.sequence(),
                            decay ? decays.sequence() : absent, channels, lookups ? looked_up.sequence() : absent, start ? weights.data() : nullptr};
    const ScanForward forward{shape, inputs, reads.sequence(), final_weights.data(), retrieved.data(), states.data()};
    if (!fastweights_scan_forward(&forward, sizeof(Real), threads)) std::exit(2);
    const ScanBackward backward{shape, inputs, retrieved.data(), states.data(), grad_reads.sequence(), end ? weights.data() : nullptr,
                                dq.sequence(), dk.sequence(), dv.sequence(), da.sequence(), db.sequence(),
                                decay ? dg.sequence() : absent, lookups ? de.sequence() : absent, asked ? grad_weights.data() : nullptr};
    if (!fastweights_scan_backward(&backward, sizeof(Real), threads)) std::exit(2);
    if (b * h * k * v == 0) return;
    reads.check("reads"), dq.check("dq"), dk.check("dk"), dv.check("dv"), da.check("da"), db.check("db");
    if (decay) dg.check("dg");
    if (lookups) de.check("de");
    for (std::size_t i = 0; i < weights.size(); ++i)
        if (!std::isfinite(final_weights[i]) || (asked && !std::isfinite(grad_weights[i]))) std::exit(3);
}

// A tensor as the library would see it through a framework: here the object is the view itself.
template <class Real>
struct Viewed {
    Index shape[4], strides[4];
    TensorView view;

    Viewed(void* data, std::initializer_list<Index> sizes, std::initializer_list<Index> distances) {
        std::copy(sizes.begin(), sizes.end(), shape), std::copy(distances.begin(), distances.end(), strides);
        view = {data, TensorView::kCpu, 0, int(sizes.size()), TensorView::kFloat, 8 * sizeof(Real), 1, shape, strides, 0};
    }
    Viewed(Tensor<Real>& x) : Viewed(x.data.data(), {x.batches, x.heads, x.steps, x.columns}, {x.batch, x.head, x.time, 1}) {}

    Viewed& without_columns() { return --view.dimensions, *this; }
};

template <class Real>
void step_case() {
    const Index b = pick({1, 2, 3}), h = pick({1, 2, 9}), k = pick({1, 3, 16, 17, 32, 64, 128}), v = pick({1, 2, 3, 4, 5, 33, 64});
    Tensor<Real> queries(b, h, 1, k, false), keys(b, h, 1, k, false), values(b, h, 1, v, false), reads(b, h, 1, v, true);
    Tensor<Real> erase(b, h, 1, 1, false), write(b, h, 1, 1, false), decay(b, h, 1, 1, false);
    Tensor<Real> channels(b, h, 1, k, false), lookups(b, h, 1, k, false);
    const bool per_channel = pick({0, 1}), looks_up = pick({0, 1});
    std::vector<Real> weights(static_cast<std::size_t>(b * h * v * k), 1), final_weights(weights.size(), std::nan(""));
    Viewed<Real> q(queries), key(keys), value(values), a(erase), w(write), g(decay), gs(channels), e(lookups), y(reads);
    Viewed<Real> before(weights.data(), {b, h, v, k}, {h * v * k, v * k, k, 1}), after(final_weights.data(), {b, h, v, k}, {h * v * k, v * k, k, 1});
    const auto view = [](void* object, TensorView* out) { return *out = *static_cast<TensorView*>(object), 0; };
    const TensorExchange exchange{1, 3, nullptr, nullptr, nullptr, nullptr, view, nullptr};
    const auto step = [&] {
        return fastweights_step(&exchange, 2, &q.view, &key.view, &value.view, &a.view, &w.view, &before.view, &y.view, &after.view,
                                pick({0, 1}) ? 1 : 0, per_channel ? &gs.view : &g.view, looks_up, &e.view);
    };
    a.without_columns(), w.without_columns(), g.without_columns();
    if (!step()) std::exit(4);
    reads.check("reads of a step");
    for (Real x : final_weights)
        if (!std::isfinite(x)) std::exit(5);
    ++before.shape[2];
    if (step()) std::exit(6);
}

template <class Real, class Call>
void features_case(Index width_per_input, Index d, Call call) {
    const Index b = pick({0, 1, 2}), h = pick({0, 1, 3}), t = pick({0, 1, 5, 70}), width = width_per_input * d, normalise = pick({0, 1, 2, 3});
    Tensor<Real> x(b, h, t, d, false), dy(b, h, t, width, false), y(b, h, t, width, true), dx(b, h, t, d, true);
    const FeatureRows forward{b, h, t, d, normalise, x.sequence(), y.sequence(), {nullptr, 0, 0, 0}};
    const FeatureRows backward{b, h, t, d, normalise, x.sequence(), dy.sequence(), dx.sequence()};
    if (!call(forward) || !call(backward)) std::exit(2);
    y.check("features"), dx.check("dx");
}

template <class Real>
void features_case() {
    const Index d = pick({0, 1, 2, 4, 7, 8, 16, 19}), shifts = 1 + pick({0, 0, 1, 2, 5}) % (2 * d > 1 ? 2 * d - 1 : 1);
    if (pick({0, 1}))
        return features_case<Real>(1, d, [](const FeatureRows& rows) { return fastweights_elu_plus_one(&rows, sizeof(Real), 2); });
    features_case<Real>(2 * shifts, d, [&](const FeatureRows& rows) {
        const DpfpRows call{rows, shifts};
        return fastweights_dpfp(&call, sizeof(Real), 2);
    });
}

template <class Real>
void attention_case() {
    const Index b = pick({0, 1, 2}), h = pick({0, 1, 3}), t = pick({1, 5, 17, 18}), s = pick({1, 7, 8, 17}), v = pick({1, 3, 8, 33});
    const Index d = pick({2, 3, 8, 17}), map = pick({0, 1, 2}), parameter = map == 0 ? pick({1, 2}) : pick({1, 3, 8, 20});
    const Index features = map == 0 ? 2 * d * parameter : map == 1 ? d : 2 * parameter, whole = 16;
    const Index causal = t == s ? pick({0, 1}) : 0, masked = pick({0, 1});
    const Index row = (d + whole - 1) / whole * whole, column = (parameter + whole - 1) / whole * whole;
    std::vector<Real> rows(static_cast<std::size_t>(parameter * row), Real(0.1)), columns(static_cast<std::size_t>(d * column), Real(0.1));
    std::vector<unsigned char> mask(static_cast<std::size_t>(b * s), 1);
    for (auto& real : mask) real = static_cast<unsigned char>(pick({0, 1}));
    Tensor<Real> queries(b, h, t, d, false), keys(b, h, s, d, false), values(b, h, s, v, false), grad_reads(b, h, t, v, false);
    Tensor<Real> reads(b, h, t, v, true), dq(b, h, t, d, true), dk(b, h, s, d, true), dv(b, h, s, v, true);
    std::vector<Real> weights(static_cast<std::size_t>(b * h * t * s)), inverse(static_cast<std::size_t>(b * h * t));
    const Sequence absent{nullptr, 0, 0, 0};
    AttentionCall call{{b, h, t, s, d, v, features, causal, 1e-16}, map, parameter, rows.data(), columns.data(), row, column, 0.5,
                       queries.sequence(), keys.sequence(), values.sequence(), masked ? mask.data() : nullptr, reads.sequence(),
                       weights.data(), inverse.data(), absent, absent, absent, absent};
    if (!fastweights_kernel_attention(&call, sizeof(Real), 2)) std::exit(2);
    reads.check("reads of attention");
    // A null pointer says that there is no gradient, as there is none of an empty batch.
    if (b * h == 0) return;
    call.grad_reads = grad_reads.sequence();
    call.grad_queries = dq.sequence(), call.grad_keys = dk.sequence(), call.grad_values = dv.sequence();
    if (!fastweights_kernel_attention(&call, sizeof(Real), 2)) std::exit(2);
    dq.check("dq of attention"), dk.check("dk of attention"), dv.check("dv of attention");
}

template <class Real>
std::vector<Real> numbers(Index count, bool result = false) {
    std::vector<Real> made(static_cast<std::size_t>(count), std::nan(""));
    std::uniform_real_distribution<Real> uniform(-1, 1);
    for (Real& x : made)
        if (!result) x = uniform(generator);
    return made;
}

template <class Real>
void check_written(const std::vector<Real>& result) {
    for (Real x : result)
        if (!std::isfinite(x)) std::exit(7);
}

template <class Real>
void generation_case() {
    const Index rows = pick({1, 2, 5}), model = pick({1, 7, 16, 33}), hidden = pick({1, 8, 40, 131}), threads = pick({1, 2, 4});
    auto x = numbers<Real>(rows * model), read = numbers<Real>(rows * model), first = numbers<Real>(hidden * model);
    auto second = numbers<Real>(model * hidden), bias = numbers<Real>(std::max(model, hidden)), y = numbers<Real>(rows * hidden, true);
    const LinearRows linear{rows, model, hidden, x.data(), first.data(), pick({0, 1}) ? bias.data() : nullptr, y.data(), model, model, hidden, pick({0, 1})};
    if (!fastweights_linear(&linear, sizeof(Real), threads)) std::exit(2);
    check_written(y);
    auto out = numbers<Real>(rows * model, true);
    const FeedForwardStep block{rows, model, hidden, pick({0, 1}), x.data(), read.data(), out.data(), bias.data(), bias.data(), bias.data(),
                                bias.data(), 1e-5, 1e-5, first.data(), bias.data(), second.data(), bias.data()};
    if (fastweights_feed_forward_step(&block, sizeof(Real), threads) != 1) std::exit(2);
    check_written(out);
    const Index heads = pick({1, 3}), key = pick({2, 8, 17}), value = pick({1, 4, 5, 16}), map = pick({0, 1}), nu = pick({1, 2});
    const Index features = map == 0 ? 2 * nu * key : key, strength = pick({0, 1});
    auto projection = numbers<Real>((2 * heads * key + heads * value + (strength ? heads : 0)) * model), output = numbers<Real>(model * heads * value);
    auto weights = numbers<Real>(rows * heads * value * features), after = numbers<Real>(rows * heads * value * features, true);
    auto strengths = numbers<Real>(heads), result = numbers<Real>(rows * model, true);
    const AttentionStep step{rows, model, heads, key, features, value, map, nu, pick({0, 1, 2, 3}), strength, 2.0, pick({0, 1}) ? strengths.data() : nullptr,
                             0.5, x.data(), projection.data(), output.data(), result.data(), weights.data(), after.data()};
    if (fastweights_attention_step(&step, sizeof(Real), threads) != 1) std::exit(2);
    check_written(result), check_written(after);
}

}  // namespace

int main(int, char** arguments) {
    const int cases = std::atoi(arguments[1]);
    int done = 0;
    for (const char* level : {"baseline", "avx2", "avx512"}) {
        if (!fastweights_use_level(level)) continue;
        for (int i = 0; i < cases; ++i, ++done) {
            pick({0, 1}) ? scan_case<float>() : scan_case<double>();
            pick({0, 1}) ? step_case<float>() : step_case<double>();
            pick({0, 1}) ? features_case<float>() : features_case<double>();
            pick({0, 1}) ? attention_case<float>() : attention_case<double>();
            pick({0, 1}) ? generation_case<float>() : generation_case<double>();
        }
    }
    std::printf("%d cases\n", done);
}
