// The epilogue of products and convolutions: a bias and an activation.
#pragma once

#include "math.cuh"

// Activations, numbered as in act.go.
enum { actNone, actRelu, actLeaky, actSigmoid, actTanh };

// activate applies one. NaN stays NaN.
template <class T> DEVICE T activate(int act, double slope, T v) {
  switch (act) {
  case actRelu: return v <= 0 ? T(0) : v;
  case actLeaky: return v > 0 ? v : T(slope) * v;
  case actSigmoid: return num::sigmoid(v);
  case actTanh: return num::tanh(v);
  }
  return v;
}
