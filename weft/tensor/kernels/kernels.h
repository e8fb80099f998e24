#pragma once

#include <torch/library.h>

namespace weft {

/// Operators with kernels of their own for distributed tensors, each family in a file of its name. `autograd` is the library
/// of the key above theirs.

/// as_strided on a distributed tensor, as other views: autograd uses it to find a view of a tensor again after either was
/// changed in place. What is no combination of slices, selections, permutations, joined and split dims (windows that
/// overlap) is taken of the whole tensor, which is gathered for it; what reaches beyond the tensor's elements raises.
void register_as_strided(torch::Library& library);

/// Registers composite operators of ATen whose own code, beside other operators, makes tensors of shapes alone (the
/// identity, a triangle, positions: the same on every rank, so they count as replicated inside) or reads numbers out of
/// an argument's memory (lengths, positions: it is given the whole argument). What the caller gives must be distributed,
/// as with every operator; numbers may be plain. Where operators are recorded for backward and below.
///
///   at::quantile(x, q)                  the positions it makes of q and of x's sizes are no error
///   at::ctc_loss(x, targets, l, m)      l and m may be distributed
void register_composites(torch::Library& library);

/// einsum that stays whole, for autograd: run by its rule forward, and backward as einsums again. Equations with an
/// ellipsis, a letter twice in one operand or a letter that is in one operand alone are made of other operators as usual.
void register_einsum(torch::Library& autograd);

/// The embedding, for autograd: forward by its rule; backward makes of the table's gradient what lies on this rank. ATen's
/// derivative does not know how the table is cut and would make all of it on every rank.
///
///   table {S(0)}   a rank adds up the gradients of its own rows; those of others are left out
///   table {S(1)}   a rank takes its columns of the output's gradient
///   table {R}      by the rule of embedding_dense_backward: partial where positions are cut
///
/// Frequencies (scale_grad_by_freq) are counted over all positions: where these are cut, one all-reduce of a number per
/// row of the rank.
void register_embedding(torch::Library& autograd);

/// Operators that change a tensor's shape in place (t_, squeeze_, ...): the tensor becomes what the operator of that name
/// without the underscore gives. Those that have none (resize_, set_) raise.
void register_in_place_views(torch::Library& library);

/// Registers instance_norm as a group norm with one channel per group. ATen would normalize samples and channels as the
/// channels of one batch norm, by a view that merges both dims, which an unevenly sharded batch does not allow.
/// Where operators are recorded for backward and below.
///
///   at::instance_norm(f32[5,3,8] {S(0)}, ...)   ->   f32[5,3,8] {S(0)}, without communication
void register_instance_norm(torch::Library& library);

/// Registers the backward operators of linear and matmul, which stay whole, for distributed tensors.
void register_linear_backward(torch::Library& library);

/// The gradient of the RMS norm, for autograd: ATen has a kernel for cuda alone, and none that is differentiable.
void register_rms_norm_backward(torch::Library& autograd);

/// Gradients of operators that pick elements by index (max along a dim, cummax, trace). ATen starts them from a plain tensor of
/// zeros; here it is a distributed one.
void register_selecting_backward(torch::Library& library);

/// Grouped-query attention where ranks share heads of the key (weft/core/shared_heads.h).
///
///   scaled_dot_product_attention(q {S(1)}, k {R}, v {R}, enable_gqa)
///     every rank takes the heads that its part of the query needs: nothing moves
///   repeat_interleave(k, 4, dim)
///     a gradient that is cut along the repeated dim is added up on the rank that has it
///
/// In both the gradients of k and v are terms, P(sum), of the size of k and v: they are reduced once, where that is due.
void register_shared_heads(torch::Library& library);

} // namespace weft
