// The keys of a training software that say how it runs mixtures of experts: of its datasheet, and of a scenario, which
// replaces them.
#pragma once

#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"
#include "transformer/training_form.h"

namespace railyard::scenario {

/// @param routed  makes a member of T of one of transformer::RoutedForm
/// @param finish  what each Field gets: required, or a default in words
template <class T, class Routed, class Finish>
void add_mixture_keys(Record<T>& r, Routed routed, Finish finish) {
  using transformer::RoutedForm;
  finish(
      r.choice("expert_products", routed(&RoutedForm::products), words_of(transformer::kExpertProductsNames),
               "products of a rank's routed experts. grouped: one kernel; streams: a launch for each expert, several "
               "run at a time; sequential: one after the other"));
  finish(r.add("router_fused", routed(&RoutedForm::router_fused),
               "choice, scores and loss of a router are a kernel each; otherwise PyTorch's operators"));
  finish(r.add("permute_fused", routed(&RoutedForm::permute_fused),
               "kernels made for it copy rows to the order of experts and back; otherwise PyTorch's operators"));
  finish(r.add("experts_synchronize", routed(&RoutedForm::synchronizes),
               "launch: eager. In each forward pass of a layer with experts, the host waits for the numbers of copies "
               "that experts get"));
}

}  // namespace railyard::scenario
