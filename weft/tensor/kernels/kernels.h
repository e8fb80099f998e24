#pragma once

#include <torch/library.h>

namespace weft {

/// Operators with kernels of their own for distributed tensors, each family in a file of its name. `library` is that of
/// the distributed tensors' dispatch key, `autograd` that of the autograd key above it.

/// as_strided on a distributed tensor, as other views: autograd uses it to find a view of a tensor again after either
/// was changed in place. A view that is no combination of slices, selections, permutations, joined and split dims
/// (overlapping windows) is taken of the replicated tensor, which is gathered for it. A view beyond the tensor's
/// elements raises.
void register_as_strided(torch::Library& library);

/// Registers composite operators of ATen whose code does one of two things apart from calling other operators:
///   it makes plain tensors from shapes (the identity, a triangle, positions). They are equal on every rank, and count
///   as replicated inside of the operator;
///   it reads numbers from an argument's memory (lengths, positions). The operator gets the gathered argument.
/// Tensors that the caller gives must be distributed, as with every operator; arguments that are read may be plain. The
/// kernels are registered at the autograd key and below.
///
///   at::quantile(x, q)                  the positions it makes of q and of x's sizes are no error
///   at::ctc_loss(x, targets, l, m)      l and m may be distributed
void register_composites(torch::Library& library);

/// The out= forms of composite operators: the operator without out=, whose result is copied to the argument, in any layout.
/// ATen's code would store results in plain tensors of its own (the factors of det), or through a view, which is a copy where
/// the argument is sharded (kron).
///
///   at::kron_out(out {S(0)}, a {R}, b {R})   ->   out {S(0)}
void register_composite_outs(torch::Library& library);

/// einsum as one operator, for autograd: the forward runs by its rule, and the backward consists of einsums again. ATen
/// decomposes equations with an ellipsis, a letter twice in one operand or a letter in only one operand, as usual.
void register_einsum(torch::Library& autograd);

/// The embedding, for autograd: the forward runs by its rule; the backward computes this rank's shard of the table's
/// gradient. ATen's derivative does not know the table's layout and would compute the full gradient on every rank.
///
///   table {S(0)}   a rank adds up the gradients of its own rows and ignores positions of other rows
///   table {S(1)}   a rank takes its columns of the output's gradient
///   table {R}      by the rule of embedding_dense_backward: partial if the positions are sharded
///
/// Frequencies (scale_grad_by_freq) are counted over all positions. If these are sharded, that takes one all-reduce of
/// one number per local row.
void register_embedding(torch::Library& autograd);

/// fill_diagonal_ by a mask, in any layout. ATen would write to a view of the diagonal, which is a copy where rows or columns are
/// sharded.
void register_fill_diagonal(torch::Library& library);

/// Operators that change a tensor's shape in place (t_, squeeze_, ...): the tensor becomes the result of the view
/// operator with the same name without the underscore. set_ makes it share the memory of another distributed tensor, and
/// resize_ to the sizes that it has leaves it as it is. Operators without such a view operator (resize_ to other sizes, other
/// forms of set_) raise.
void register_in_place_views(torch::Library& library);

/// Indexing, whose gradient keeps the shards of the dims that are not indexed. ATen adds the gradient to a tensor of zeros in
/// place. These zeros are replicated, because nothing tells their layout, so that the gradient would be gathered. Where the
/// gradient is partial it is reduced, once, as by ATen's derivative: what comes before would reduce it in every operator.
///
///   x[:, index]              x {S(2)}          the derivative of _unsafe_index, which adds out of place
///   index_select, gather     gradient {S(2)}   add out of place, too
void register_indexing_backward(torch::Library& library);
void register_index(torch::Library& autograd);

/// Registers instance_norm as a group norm with one channel per group. ATen would normalize samples and channels as the
/// channels of one batch norm, by a view that merges both dims, which an unevenly sharded batch does not allow.
/// The kernel is registered at the autograd key and below.
///
///   at::instance_norm(f32[5,3,8] {S(0)}, ...)   ->   f32[5,3,8] {S(0)}, without communication
void register_instance_norm(torch::Library& library);

/// is_same_size, which reads shapes alone, so that one of the tensors may be plain.
void register_is_same_size(torch::Library& library);

/// Registers the backward operators of linear and matmul, which ATen does not decompose, for distributed tensors.
void register_linear_backward(torch::Library& library);

/// matmul and linear, for autograd: one operator with ATen's derivative where that exists, and ATen's decomposition for what
/// the derivative lacks, which are complex matrices (matmul) and the tangents of forward mode AD (both).
void register_products(torch::Library& autograd);

/// one_hot by a comparison with the classes, which keeps the layout of the index. ATen would write to a plain tensor of zeros.
/// On CPUs the smallest and the largest class are read, as on a plain tensor, at the cost of one number from each rank.
///
///   one_hot(i64[6] {S(0)}, 4)   ->   i64[6,4] {S(0)}
void register_one_hot(torch::Library& library);

/// Operators without a rule that run on the local tensors of the replicated inputs, as on plain tensors, because ATen's code
/// would not take distributed ones:
///   the derivative formulas of Householder products write to views of new tensors with the layouts of the inputs. A view
///   of a sharded dim is a copy, which must not be written to. Without a gradient these run as all operators do;
///   matrix_rank stores its result in a plain tensor.
///
///   linalg_householder_product(input {S(0)}, tau {S(0)})   ->   {R}, after gathering both
void register_on_replicated_locals(torch::Library& library, torch::Library& autograd);

/// Sums and means, for autograd: where a gradient of the result is partial over mesh dims that shard the reduced dims, it is reduced
/// before ATen's derivative expands it. Expanded, it would be as large as the input, whose gradient has to be sharded anyway.
///
///   x {S(2)}, x.pow(2).mean(2, keepdim), gradient f32[2,9,1] {P(sum)}   ->   one all-reduce of f32[2,9,1]
void register_reduction_backward(torch::Library& autograd);

/// The gradient of the RMS norm, for autograd: ATen has a kernel only for CUDA, which cannot be differentiated again.
void register_rms_norm_backward(torch::Library& autograd);

/// Gradients of operators that pick elements by index (max along a dim, cummax, trace). ATen starts them from a plain
/// tensor of zeros; here it is a distributed one.
void register_selecting_backward(torch::Library& library);

/// Grouped-query attention where ranks share heads of the key (weft/core/shared_heads.h).
///
///   scaled_dot_product_attention(q {S(1)}, k {R}, v {R}, enable_gqa)
///     every rank takes the heads that its shard of the query needs, without communication
///   repeat_interleave(k, 4, dim)
///     every rank adds up its shard of a gradient that is sharded along the repeated dim
///
/// In both cases the gradients of k and v are P(sum), with the shape of k and v, and are reduced once, by their first
/// user. Attention with dropout is attention_dropout.h.
void register_shared_heads(torch::Library& library);

/// The gradient of a slice along a dim by which the gradient is sharded: every rank gets what the slice took of its own
/// shard, in one all-to-all, and the layout stays. By the rule, shards of that dim would be exchanged for shards of another
/// one and, for most readers of the gradient, back. A slice with a step, and shards that are strided or of several mesh
/// dims, go by the rule.
///
///   slice_backward(f32[8,3] {S(0)}, {12,3}, dim=0, start=4, ...)   ->   f32[12,3] {S(0)}
void register_slice_backward(torch::Library& library);

/// Registers max_pool1d by its form with indices, which is made of other operators. Where no gradient is wanted, torch's own
/// code on the CPU reads the memory of its input directly, and a distributed tensor has none.
void register_max_pool1d(torch::Library& library);

/// Registers the forms of `to` that name a device. To meta a distributed tensor stays distributed, in the same layout; torch
/// would choose a kernel by the device that is asked for, and give a plain tensor. In inference mode it still does.
///
///   t.to("meta")   f32[8,4] {S(0)} without data
void register_to_meta(torch::Library& library);

/// What GradScaler does to gradients: every rank divides its local tensors by the scale, and one number per mesh says on all
/// ranks whether one of them is not finite. Gradients may be on several meshes, and plain among distributed ones.
///
///   gradients {S(0)} on tp=2   one all-reduce of a number; without a rule the gradients would be gathered
void register_unscale(torch::Library& library);

/// `where` with a number in place of a tensor. ATen converts the number to a tensor on the device of the other
/// operands. If that is the meta device, the dispatcher would prefer the kernel of plain meta tensors to that of
/// distributed ones, and the result would be plain. This kernel keeps the number on the CPU.
void register_where_number(torch::Library& library);

} // namespace weft
