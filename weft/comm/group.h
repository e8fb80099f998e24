#pragma once

#include "weft/comm/collective.h"
#include "weft/comm/pending.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace weft {

class Communicator;

using Tensors = c10::ArrayRef<at::Tensor>;

/// The number of a call in its group, taken when the operation it belongs to was started.
struct Reserved {
  int64_t sequence = -1; // none: the call takes the next number itself
};

/// What a group is: the ranks along some dims of a mesh. Ranks that make the same mesh describe its groups alike.
struct GroupDescription {
  std::string label;          // the mesh dims: "tp" or "dp,tp"
  std::vector<int64_t> ranks; // the members, in order
  int64_t rank;               // this member's number
  c10::DeviceType device_type;
  std::string identity; // a text that differs between the groups of all meshes of a world
};

/// Some ranks that communicate, as one of them sees it; members are counted in the order of `ranks()`.
///
/// One thread at a time may use a group. A call that another thread makes meanwhile is an error where it can be seen,
/// because ranks could then number the calls of their threads differently and take each other's data.
///
/// Every call starts the operation and returns at once. All members must make the same calls in the same order; where
/// they do not, or where one is gone, every member gets an error within the timeout. Tensors need not be contiguous.
/// Outputs are written in place and must not be touched, nor inputs changed, before the Pending is done.
///
/// A backend must implement one method, `do_exchange`: the others are built on it, with the fewest bytes on the wire.
/// With n members and b bytes of a member's whole input:
///
///   all_gather       one exchange, (n-1) b received
///   all_to_all       one exchange, (n-1)/n b
///   reduce_scatter   one exchange of the pieces, then each member reduces its own: (n-1)/n b
///   all_reduce       small: one exchange of everything, (n-1) b; large: reduce_scatter + all_gather, 2 (n-1)/n b
///   broadcast        one exchange from the root, b
///   scatter          one exchange from the root, b/n
class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(Communicator& communicator, GroupDescription description);
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// This member's number, and how many there are.
  int64_t rank() const {
    return description_.rank;
  }
  int64_t size() const {
    return static_cast<int64_t>(description_.ranks.size());
  }
  const std::vector<int64_t>& ranks() const {
    return description_.ranks;
  }
  /// The mesh dims it was made for: "tp" or "dp,tp".
  const std::string& label() const {
    return description_.label;
  }
  /// "group tp (ranks 0,1)"
  std::string to_string() const;

  /// Numbers a call that will be made later, so that ranks which make it at different times still mean the same one.
  Reserved reserve() {
    return {static_cast<int64_t>(next_sequence())};
  }
  /// Whether waiting blocks this thread; otherwise it orders the device's stream, and one may wait at once.
  virtual bool blocks_host() const {
    return true;
  }

  /// sends[i] goes to member i, which has a tensor of the same shape at recvs[this member]; undefined or empty: none.
  Pending all_to_all(Tensors sends, Tensors recvs, Reserved reserved = {});
  /// outputs[i] becomes member i's input; undefined where that is empty.
  Pending all_gather(const at::Tensor& input, Tensors outputs, Reserved reserved = {});
  /// The same into one contiguous tensor: what member i gives has lengths[i] along `dim`, before which all dims are of one
  /// element, so that the parts lie one after the other.
  Pending all_gather(
      const at::Tensor& input,
      const at::Tensor& output,
      int64_t dim,
      c10::IntArrayRef lengths,
      Reserved reserved = {});
  /// Member i's output becomes the reduction of everybody's inputs[i].
  Pending reduce_scatter(Tensors inputs, const at::Tensor& output, ReduceOp op, Reserved reserved = {});
  /// The output, which has the input's shape and is contiguous, becomes the reduction of everybody's inputs.
  Pending all_reduce(const at::Tensor& input, const at::Tensor& output, ReduceOp op, Reserved reserved = {});
  Pending broadcast(const at::Tensor& tensor, int64_t root);
  /// Member i's output becomes the root's inputs[i]; the others' inputs are not read.
  Pending scatter(Tensors inputs, const at::Tensor& output, int64_t root);
  Pending send(const at::Tensor& tensor, int64_t to);
  Pending recv(const at::Tensor& tensor, int64_t from);
  Pending barrier();

 protected:
  /// As all_to_all, without this member's own slot. The call says what for.
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
  Call make_call(Collective collective, const at::Tensor& tensor, Reserved reserved = {});
  Pending track(const Call& call, int64_t received_bytes, Pending pending, int64_t stages = 1);
  bool is_small(const at::Tensor& tensor) const;

  Communicator& communicator_;
  GroupDescription description_;
  std::shared_ptr<GroupUse> use_;
};

} // namespace weft
