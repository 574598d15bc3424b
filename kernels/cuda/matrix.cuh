// Operands and results of products as matrices in memory.
#pragma once

#include "product.cuh"

template <class T> using wide = vec<T, 16 / sizeof(T)>;

// A matrix of which rows are M or N of the product, columns k, or the other way.
template <class T, bool AlongK, bool Always> struct matrix {
  static constexpr bool alongK = AlongK, always = Always;
  const T *__restrict__ p;
  int64 lead; // elements from row to row in memory
  bool wide;
  typedef int64 Place;
  METHOD Place place(int row) const { return alongK ? row * lead : row; }
  METHOD const T *at(Place row, int k) const { return p + row + (alongK ? k : k * lead); }
  METHOD T load(Place row, int k) const { return *at(row, k); }
  METHOD ::wide<T> loadWide(Place row, int k) const { return *(const ::wide<T> *)at(row, k); }
};

template <class T> struct result {
  T *p;
  const T *bias;  // null: none
  int64 biasLead; // elements from its row for one row of the result to that for the next: 0 for a vector
  int64 N;
  int act;
  double slope;
  METHOD void put(int row, int col, T v) const { p[row * N + col] = activate(act, slope, bias ? v + bias[row * biasLead + col] : v); }
};
