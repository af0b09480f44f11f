// Runs a whole forward or backward call: cuts it by the plan, calls an implementation's loops, finishes statistics.
// Threads come in through `parallel(count, f)`, which calls f(begin, end, thread) on disjoint ranges covering [0,
// count).
#pragma once

#include <algorithm>

#include "frn/kernels/statistics.h"

namespace frn::kernels {

template <typename T>
class Driver {
  using A = Accumulate<T>;

 public:
  Driver(const Problem<T>& problem, const Loops<T>& loops, const Plan& plan, std::byte* workspace)
      : p_(problem), loops_(loops), plan_(plan), workspace_(workspace) {}

  template <typename Parallel>
  void forward(T* z, Parallel&& parallel) {
    const auto apply = choose(loops_.apply);
    const auto write = [&](const Piece& piece, const ChannelArrays<A>& arrays, int64_t origin) {
      apply(extent(piece), p_.x + at(piece), past(p_.shortcut, piece), coefficients(piece, arrays, origin),
            z + at(piece), p_.stream);
    };
    if (p_.norm == Norm::kIdentity || !plan_.split) {
      for_each_unit(parallel, [&](GroupRange range, const ChannelArrays<A>& arrays) {
        const Piece whole = piece_of(range);
        if (p_.norm == Norm::kCentered) {
          sum_segments(whole, arrays, 1, sum_pass());
          finish_mean(p_, range, arrays);
        }
        if (p_.norm != Norm::kIdentity) {
          sum_segments(whole, arrays, 1, square_pass(arrays, whole.channel));
          finish_rstd(p_, loops_, range, arrays);
        }
        write(whole, arrays, whole.channel);
      });
      return;
    }
    if (p_.norm == Norm::kCentered) {
      sum_split(parallel, 1, [&](const ChannelArrays<A>&, int64_t) { return sum_pass(); });
      for_each_sample(parallel, [&](GroupRange range, const ChannelArrays<A>& a) { finish_mean(p_, range, a); });
    }
    sum_split(parallel, 1, [&](const ChannelArrays<A>& a, int64_t origin) { return square_pass(a, origin); });
    for_each_sample(parallel, [&](GroupRange range, const ChannelArrays<A>& a) { finish_rstd(p_, loops_, range, a); });
    for_each_piece(parallel, [&](const Piece& piece, int64_t) { write(piece, sample_arrays(piece.sample), 0); });
  }

  template <typename Parallel>
  void backward(const BackwardProblem<T>& p, Parallel&& parallel) {
    const auto sums = choose(loops_.gradient_sums);
    const auto apply = choose(loops_.gradient_apply);
    const auto sum_pass_of = [&](const ChannelArrays<A>& arrays, int64_t origin) {
      return [this, &p, sums, &arrays, origin](const Piece& piece, double* out) {
        sums(extent(piece), p.x + at(piece), past(p.shortcut, piece), p.dz + at(piece),
             coefficients(piece, arrays, origin), out);
      };
    };
    const auto write = [&](const Piece& piece, const ChannelArrays<A>& arrays, int64_t origin) {
      apply(extent(piece), p.x + at(piece), past(p.shortcut, piece), p.dz + at(piece),
            coefficients(piece, arrays, origin), p.dx + at(piece), past(p.dshortcut, piece), p.stream);
    };
    if (!plan_.split) {
      for_each_unit(parallel, [&](GroupRange range, const ChannelArrays<A>& arrays) {
        const Piece whole = piece_of(range);
        spread_statistics(p_, range, arrays);
        sum_segments(whole, arrays, kGradientSums, sum_pass_of(arrays, whole.channel));
        finish_gradients(p, loops_, range, arrays);
        if (p.dx != nullptr) write(whole, arrays, whole.channel);
      });
      return;
    }
    for_each_sample(parallel,
                    [&](GroupRange range, const ChannelArrays<A>& arrays) { spread_statistics(p_, range, arrays); });
    sum_split(parallel, kGradientSums, sum_pass_of);
    for_each_sample(parallel, [&](GroupRange range, const ChannelArrays<A>& arrays) {
      finish_gradients(p, loops_, range, arrays);
    });
    if (p.dx == nullptr) return;
    for_each_piece(parallel, [&](const Piece& piece, int64_t) { write(piece, sample_arrays(piece.sample), 0); });
  }

 private:
  struct Piece {
    int64_t sample;
    int64_t channel;
    int64_t channels;
    int64_t position;
    int64_t positions;
  };

  template <typename Loop>
  Loop choose(const Loop (&table)[kAdditions][kNorms][kThresholds]) const {
    return table[static_cast<int>(p_.addition())][static_cast<int>(p_.norm)][static_cast<int>(p_.threshold)];
  }

  // Where a piece begins in an array that may be missing.
  template <typename Pointer>
  Pointer past(Pointer array, const Piece& piece) const {
    return array == nullptr ? nullptr : array + at(piece);
  }
  int64_t at(const Piece& piece) const { return p_.offset(piece.sample, piece.channel, piece.position); }
  Extent extent(const Piece& piece) const { return p_.extent(piece.channels, piece.positions); }
  Piece piece_of(GroupRange range) const {
    const int64_t group_channels = p_.group_channels();
    return {range.sample, range.begin * group_channels, (range.end - range.begin) * group_channels, 0, p_.positions};
  }
  Piece segment_of(Piece piece, int64_t segment) const {
    piece.position = segment * plan_.segment;
    piece.positions = std::min(plan_.segment, p_.positions - piece.position);
    return piece;
  }

  // `origin`: the channel at which the arrays start.
  Coefficients<A> coefficients(const Piece& piece, const ChannelArrays<A>& arrays, int64_t origin) const {
    const int64_t skip = piece.channel - origin;
    return {.mean = arrays.mean + skip,
            .rstd = arrays.rstd + skip,
            .slope = arrays.slope + skip,
            .beta = p_.beta + piece.channel,
            .tau = p_.tau + piece.channel,
            .kappa = p_.kappa + piece.channel,
            .xhat_scale = arrays.xhat_scale + skip,
            .shift = arrays.shift + skip};
  }

  auto sum_pass() const {
    return [this](const Piece& piece, double* out) { loops_.sum(extent(piece), p_.x + at(piece), out); };
  }
  auto square_pass(const ChannelArrays<A>& arrays, int64_t origin) const {
    return [this, &arrays, origin](const Piece& piece, double* out) {
      if (p_.norm == Norm::kCentered) {
        loops_.sum_squared_deviations(extent(piece), p_.x + at(piece), arrays.mean + (piece.channel - origin), out);
      } else {
        loops_.sum_squares(extent(piece), p_.x + at(piece), out);
      }
    };
  }

  // arrays.sums = the sums over all segments of a unit, in the order of the segments.
  template <typename Pass>
  void sum_segments(const Piece& whole, const ChannelArrays<A>& arrays, int rows, Pass pass) const {
    pass(segment_of(whole, 0), arrays.sums);
    for (int64_t s = 1; s < plan_.segments; ++s) {
      pass(segment_of(whole, s), arrays.segment_sums);
      for (int64_t i = 0; i < rows * whole.channels; ++i) arrays.sums[i] += arrays.segment_sums[i];
    }
  }

  template <typename Parallel, typename Body>
  void for_each_unit(Parallel&& parallel, Body body) const {
    const size_t stride = ChannelArrays<A>::bytes(unit_channels(p_, plan_));
    parallel(p_.samples * plan_.units_per_sample, [&](int64_t begin, int64_t end, int thread) {
      const ChannelArrays<A> arrays(workspace_ + static_cast<size_t>(thread) * stride, unit_channels(p_, plan_));
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % plan_.units_per_sample * plan_.unit_groups;
        body(GroupRange{unit / plan_.units_per_sample, first, std::min(first + plan_.unit_groups, p_.groups)}, arrays);
      }
    });
  }

  // Split passes: memory is [samples] channel arrays, then [samples][segments] sums.
  ChannelArrays<A> sample_arrays(int64_t sample) const {
    return {workspace_ + static_cast<size_t>(sample) * ChannelArrays<A>::bytes(p_.channels), p_.channels};
  }
  double* split_sums(int64_t sample, int64_t segment) const {
    const auto index = static_cast<size_t>(sample * plan_.segments + segment);
    return reinterpret_cast<double*>(workspace_ +
                                     static_cast<size_t>(p_.samples) * ChannelArrays<A>::bytes(p_.channels) +
                                     index * segment_sums_bytes(p_));
  }

  // With few threads this is next to nothing beside the maps; with as many as samples it would be what all wait for.
  template <typename Parallel, typename Body>
  void for_each_sample(Parallel&& parallel, Body body) const {
    constexpr int64_t kWorthThreads = 4096;  // channels, some nanoseconds each
    const auto finish = [&](int64_t begin, int64_t end, int) {
      for (int64_t n = begin; n < end; ++n) body(GroupRange{n, 0, p_.groups}, sample_arrays(n));
    };
    if (p_.samples * p_.channels < kWorthThreads) return finish(0, p_.samples, 0);
    parallel(p_.samples, finish);
  }

  // body(piece, segment) for every segment of every sample, cut by channels too.
  template <typename Parallel, typename Body>
  void for_each_piece(Parallel&& parallel, Body body) const {
    const int64_t step = plan_.piece_channels;
    const int64_t cuts = divide_up(p_.channels, step);
    parallel(p_.samples * cuts * plan_.segments, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t segment = i % plan_.segments;
        const int64_t channel = i / plan_.segments % cuts * step;
        const int64_t sample = i / plan_.segments / cuts;
        body(segment_of(Piece{sample, channel, std::min(step, p_.channels - channel), 0, 0}, segment), segment);
      }
    });
  }

  template <typename Parallel, typename MakePass>
  void sum_split(Parallel&& parallel, int rows, MakePass make_pass) const {
    for_each_piece(parallel, [&](const Piece& piece, int64_t segment) {
      const ChannelArrays<A> arrays = sample_arrays(piece.sample);
      double* const out = split_sums(piece.sample, segment);
      const auto pass = make_pass(arrays, 0);
      if (rows == 1 || piece.channels == p_.channels) {
        pass(piece, out + piece.channel);
        return;
      }
      sum_rows(piece, rows, pass, out);
    });
    // Every sum is added up in the order of its segments, by whichever thread: with many threads there are many
    // segments, and one thread alone would need as long for these sums as all of them for the map.
    constexpr int64_t kBlock = 256;  // whole cache lines
    constexpr int64_t kWorthThreads = 32768;
    const int64_t width = rows * p_.channels;
    const int64_t blocks = (width + kBlock - 1) / kBlock;
    const auto add_up = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = i / blocks;
        const int64_t first = i % blocks * kBlock;
        const int64_t last = std::min(first + kBlock, width);
        double* const sums = sample_arrays(sample).sums;
        std::copy(split_sums(sample, 0) + first, split_sums(sample, 0) + last, sums + first);
        for (int64_t s = 1; s < plan_.segments; ++s) {
          const double* const more = split_sums(sample, s);
          for (int64_t k = first; k < last; ++k) sums[k] += more[k];
        }
      }
    };
    if (p_.samples * width * plan_.segments < kWorthThreads) return add_up(0, p_.samples * blocks, 0);
    parallel(p_.samples * blocks, add_up);
  }

  // The loops write [rows][piece.channels]; the sums of a sample are [rows][channels]. A few channels at a time go
  // through a buffer on the stack.
  template <typename Pass>
  void sum_rows(Piece piece, int rows, const Pass& pass, double* out) const {
    constexpr int64_t kStep = 64;
    double buffer[kGradientSums * kStep];
    const int64_t end = piece.channel + piece.channels;
    for (; piece.channel < end; piece.channel += kStep) {
      piece.channels = std::min(kStep, end - piece.channel);
      pass(piece, buffer);
      for (int row = 0; row < rows; ++row) {
        std::copy_n(buffer + row * piece.channels, piece.channels, out + row * p_.channels + piece.channel);
      }
    }
  }

  const Problem<T>& p_;
  const Loops<T>& loops_;
  const Plan& plan_;
  std::byte* workspace_;
};

}  // namespace frn::kernels
