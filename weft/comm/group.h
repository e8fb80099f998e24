#pragma once

#include "weft/comm/collective.h"
#include "weft/comm/pending.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace weft {

class Communicator;

using Tensors = c10::ArrayRef<at::Tensor>;

/// The sequence number of a later call in its group, reserved when the operation that makes the call was started.
struct Reserved {
  int64_t sequence = -1; // negative: the call takes the next number itself
};

/// Describes a group: the ranks along some dims of a mesh. All ranks that make the same mesh describe its groups alike.
struct GroupDescription {
  std::string label;          // the mesh dims: "tp" or "dp,tp"
  std::vector<int64_t> ranks; // the members, in order
  int64_t rank;               // this member's index in `ranks`
  c10::DeviceType device_type;
  std::string identity; // a text that no other group of any mesh of the world has
};

/// A group of ranks that communicate, as seen by one member. Members are numbered in the order of `ranks()`.
///
/// Only one thread at a time may use a group. A call of a second thread meanwhile raises an error if it is detected,
/// because the ranks could number the calls of their threads differently and exchange the data of different calls.
///
/// Every call starts the operation and returns at once. All members must make the same calls in the same order; if they
/// do not, or if a member is gone, every member gets an error within the timeout. Tensors need not be contiguous.
/// Outputs are written in place. Until the Pending is done, outputs must not be used and inputs must not be changed.
///
/// A backend must implement one method, `do_exchange`. The other collectives are built on it, with the fewest bytes on
/// the wire. With n members and b bytes of one member's full input:
///
///   all_gather       one exchange, (n-1) b received
///   all_to_all       one exchange, (n-1)/n b
///   reduce_scatter   one exchange of the chunks, then each member reduces its own chunk: (n-1)/n b
///   all_reduce       small: one exchange of the full inputs, (n-1) b; large: reduce_scatter + all_gather, 2 (n-1)/n b
///   broadcast        one exchange from the root, b
///   scatter          one exchange from the root, b/n
class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(Communicator& communicator, GroupDescription description);
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// This member's index, and the number of members.
  int64_t rank() const {
    return description_.rank;
  }
  int64_t size() const {
    return static_cast<int64_t>(description_.ranks.size());
  }
  const std::vector<int64_t>& ranks() const {
    return description_.ranks;
  }
  /// The mesh dims of the group: "tp" or "dp,tp".
  const std::string& label() const {
    return description_.label;
  }
  /// "group tp (ranks 0,1)"
  std::string to_string() const;

  /// Reserves the sequence number of a later call, so that ranks which make the call at different times still match it.
  Reserved reserve() {
    return {static_cast<int64_t>(next_sequence())};
  }
  /// Whether wait() blocks this thread. Otherwise wait() only orders the device's stream, and may be called at once.
  virtual bool blocks_host() const {
    return true;
  }

  /// sends[i] goes to member i, whose recvs[this member] must have the same shape. An undefined or empty tensor sends
  /// nothing.
  Pending all_to_all(Tensors sends, Tensors recvs, Reserved reserved = {});
  /// outputs[i] becomes member i's input; it is undefined if that input is empty.
  Pending all_gather(const at::Tensor& input, Tensors outputs, Reserved reserved = {});
  /// The same into one contiguous tensor: member i's input has lengths[i] along `dim`. All dims before `dim` have one
  /// element, so that the members' inputs are consecutive in memory.
  Pending all_gather(
      const at::Tensor& input,
      const at::Tensor& output,
      int64_t dim,
      c10::IntArrayRef lengths,
      Reserved reserved = {});
  /// Member i's output becomes the reduction of all members' inputs[i].
  Pending reduce_scatter(Tensors inputs, const at::Tensor& output, ReduceOp op, Reserved reserved = {});
  /// The output becomes the reduction of the members' inputs; it has the input's shape and is contiguous.
  Pending all_reduce(const at::Tensor& input, const at::Tensor& output, ReduceOp op, Reserved reserved = {});
  Pending broadcast(const at::Tensor& tensor, int64_t root);
  /// Member i's output becomes the root's inputs[i]; the inputs of the other members are not read.
  Pending scatter(Tensors inputs, const at::Tensor& output, int64_t root);
  Pending send(const at::Tensor& tensor, int64_t to);
  Pending recv(const at::Tensor& tensor, int64_t from);
  Pending barrier();
  /// An all_gather of a tensor of one element. Other members' calls match it only if they compare seeds as well.
  Pending compare_seeds(const at::Tensor& seed, Tensors outputs);

 protected:
  /// As all_to_all, but ignores this member's own slot. `call` describes the collective that needs the exchange.
  virtual Pending do_exchange(const Call& call, Tensors sends, Tensors recvs) = 0;
  virtual Pending do_all_gather(const Call& call, const at::Tensor& input, Tensors outputs);
  virtual Pending do_all_gather_into(
      const Call& call,
      const at::Tensor& input,
      const at::Tensor& output,
      int64_t dim,
      c10::IntArrayRef lengths);
  virtual Pending do_reduce_scatter(const Call& call, Tensors inputs, const at::Tensor& output);
  virtual Pending do_all_reduce(const Call& call, const at::Tensor& input, const at::Tensor& output);
  virtual Pending do_broadcast(const Call& call, const at::Tensor& tensor);
  /// The number of the next collective, or of the next message to or from one member.
  virtual uint64_t next_sequence() = 0;
  virtual uint64_t next_message(Collective direction, int64_t peer) = 0;

 private:
  Pending message(Collective direction, const at::Tensor& tensor, int64_t peer);
  Pending gather(Collective collective, const at::Tensor& input, Tensors outputs, Reserved reserved);
  Call make_call(Collective collective, const at::Tensor& tensor, Reserved reserved = {});
  Pending track(const Call& call, int64_t received_bytes, Pending pending, int64_t stages = 1);
  bool is_small(const at::Tensor& tensor) const;

  Communicator& communicator_;
  GroupDescription description_;
  std::shared_ptr<GroupUse> use_;
};

} // namespace weft
