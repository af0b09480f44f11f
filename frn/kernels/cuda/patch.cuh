// A block's patch: which rows and positions it is, and its way from global memory to shared memory and back.
#pragma once

#include "frn/kernels/cuda/arguments.h"
#include "frn/kernels/cuda/device.cuh"

namespace frn::kernels::cuda {

struct Patch {
  int64_t sample;  // of its first row, as the channel
  int channel;
  int rows;
  int first_position;
  int positions;
  int segment;
  int64_t offset;  // of its first value in x
  int line;        // values side by side in memory
  int64_t line_step;

  FRN_DEVICE int size() const { return rows * positions; }
  // Where the patch's k-th value is in x. In shared memory the values are dense.
  FRN_DEVICE int64_t global(int k) const {
    return line == size() ? offset + k : offset + k / line * line_step + k % line;
  }
};

template <typename T>
FRN_DEVICE Patch patch_of_block(const Arguments<T>& a) {
  const Cut& cut = a.cut;
  const int64_t tile = block_index() / cut.segments;
  Patch p;
  p.segment = static_cast<int>(block_index() % cut.segments);
  p.first_position = p.segment * cut.segment;
  p.positions = smaller(cut.segment, a.positions - p.first_position);
  if (cut.contiguous) {
    const int64_t row = tile * cut.rows;  // the last patch of a sample goes on in the next
    p.sample = a.first_sample + row / a.channels;
    p.channel = static_cast<int>(row % a.channels);
    p.rows = static_cast<int>(smaller(int64_t{cut.rows}, a.samples * a.channels - row));
    p.offset = (p.sample * a.channels + p.channel) * a.positions + p.first_position;
    p.line = p.size();
    p.line_step = 0;
    return p;
  }
  p.sample = a.first_sample + tile / cut.tiles;
  p.channel = static_cast<int>(tile % cut.tiles) * cut.rows;
  p.rows = smaller(cut.rows, a.channels - p.channel);
  p.offset = (p.sample * a.positions + p.first_position) * a.channels + p.channel;
  p.line = p.rows == a.channels ? p.size() : p.rows;
  p.line_step = a.channels;
  return p;
}

// The values of a patch in shared memory, as they came. Row and position in the strides of x's layout.
template <typename T>
struct Tile {
  T* memory;
  int shift;  // values before the first, so that 16-byte packs are aligned both here and in global memory
  int row_step;
  int position_step;

  FRN_DEVICE T* at(int row, int position) const { return memory + shift + row * row_step + position * position_step; }
  FRN_DEVICE Accumulate<T> get(int row, int position) const { return widen(load_shared(at(row, position))); }
  FRN_DEVICE void put(int row, int position, Accumulate<T> value) const {
    T narrowed;
    narrow(value, narrowed);
    store_shared(at(row, position), narrowed);
  }
};

template <typename T>
FRN_DEVICE int values_past_a_pack(const T* p) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(p) % kPackBytes / sizeof(T));
}

template <typename T>
FRN_DEVICE Tile<T> tile_of(const Arguments<T>& a, const Patch& p, int32_t start) {
  const int shift = a.cut.vector ? values_past_a_pack(a.x + p.offset) : 0;
  T* const memory = reinterpret_cast<T*>(shared_memory() + start);
  return a.cut.contiguous ? Tile<T>{memory, shift, p.positions, 1} : Tile<T>{memory, shift, 1, p.rows};
}

// Calls single(k) for the values, and pack(k) for the 16-byte packs that start at value k, each on one thread.
template <typename T, typename Single, typename PackOf>
FRN_DEVICE void for_each_value(const Arguments<T>& a, const Patch& p, int shift, Single single, PackOf pack) {
  constexpr int kWidth = kPackBytes / static_cast<int>(sizeof(T));
  const int size = p.size();
  if (!a.cut.vector) {
    for (int k = thread_index(); k < size; k += block_threads()) single(k);
    return;
  }
  const int head = smaller(size, (kWidth - shift) % kWidth);
  const int packs = (size - head) / kWidth;
  for (int k = thread_index(); k < packs; k += block_threads()) pack(head + k * kWidth);
  // The few values before the first whole pack and after the last.
  const int tail = head + packs * kWidth;
  for (int k = thread_index(); k < head; k += block_threads()) single(k);
  for (int k = tail + thread_index(); k < size; k += block_threads()) single(k);
}

template <typename T>
FRN_DEVICE void load_tile(const Arguments<T>& a, const Patch& p, const T* from, const Tile<T>& tile) {
  T* const to = tile.memory + tile.shift;
  for_each_value(
      a, p, tile.shift, [&](int k) { store_shared(to + k, load_global(from + p.global(k))); },
      [&](int k) {
        store_shared(reinterpret_cast<Pack*>(to + k), load_global(reinterpret_cast<const Pack*>(from + p.global(k))));
      });
}

template <typename T>
FRN_DEVICE void store_tile(const Arguments<T>& a, const Patch& p, const Tile<T>& tile, T* to) {
  const T* const from = tile.memory + tile.shift;
  for_each_value(
      a, p, tile.shift, [&](int k) { store_global(to + p.global(k), load_shared(from + k)); },
      [&](int k) {
        store_global(reinterpret_cast<Pack*>(to + p.global(k)), load_shared(reinterpret_cast<const Pack*>(from + k)));
      });
}

// A row of a patch: its channel, and its group counted over all samples.
struct Row {
  int channel;
  int64_t sample;
  int64_t group;
};
template <typename T>
FRN_DEVICE Row row_of(const Arguments<T>& a, const Patch& p, int row) {
  const int further = (p.channel + row) / a.channels;
  const int channel = p.channel + row - further * a.channels;
  return {channel, p.sample + further, (p.sample + further) * a.groups + channel / a.group_channels};
}

// A part of a row; `slot` is its place among the sums in shared memory.
struct Item {
  int row;
  int part;
  int slot;
};
FRN_DEVICE int slot_of(const Cut& cut, const Patch& p, int row, int part) {
  return cut.contiguous ? row * cut.parts + part : part * p.rows + row;
}

// f(item, lane) on every lane of the item's team. Neighbouring threads read neighbouring values in both layouts.
template <typename T, typename F>
FRN_DEVICE void for_each_item(const Arguments<T>& a, const Patch& p, F f) {
  const Cut& cut = a.cut;
  const int lane = thread_index() % cut.team;
  for (int i = thread_index() / cut.team; i < p.rows * cut.parts; i += block_threads() / cut.team) {
    if (cut.contiguous) {
      f(Item{i / cut.parts, i % cut.parts, i}, lane);
    } else {
      f(Item{i % p.rows, i / p.rows, i}, lane);
    }
  }
}

// f(position) for a lane's share of an item.
template <typename F>
FRN_DEVICE void for_each_position(const Cut& cut, const Patch& p, const Item& item, int lane, F f) {
  for (int i = item.part * cut.team + lane; i < p.positions; i += cut.parts * cut.team) f(i);
}

// How many of a row's positions are in a part.
FRN_DEVICE int part_size(const Cut& cut, int positions, int part) {
  const int round = cut.parts * cut.team;
  const int left = positions % round - part * cut.team;
  return positions / round * cut.team + (left < 0 ? 0 : smaller(left, cut.team));
}

}  // namespace frn::kernels::cuda
