#include "merge/tree.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <utility>

namespace dsckpt::merge {

namespace {

bool IsContainer(NodeKind kind) {
  return kind == NodeKind::kDict || kind == NodeKind::kList || kind == NodeKind::kTuple;
}

bool IsTensor(NodeKind kind) { return kind == NodeKind::kTensor || kind == NodeKind::kAlias; }

template <typename OwnedKey>
std::string KeyText(const OwnedKey& key) {
  return key.is_int ? std::to_string(key.integer) : key.text;
}

/// Tags that say nothing of what a dict holds.
bool MayLackKeys(std::string_view tag) { return tag.empty() || tag == "py.OrderedDict"; }

}  // namespace

bool SameValue(const Value& a, const Value& b) {
  const auto bits = [](double number) { return std::bit_cast<uint64_t>(number); };
  if (a.index() != b.index()) return false;
  if (const auto* const x = std::get_if<double>(&a)) return bits(*x) == bits(std::get<double>(b));
  if (const auto* const x = std::get_if<std::complex<double>>(&a)) {
    const auto& y = std::get<std::complex<double>>(b);
    return bits(x->real()) == bits(y.real()) && bits(x->imag()) == bits(y.imag());
  }
  return a == b;
}

MergedTree::TreeNode* MergedTree::TreeNode::Find(const OwnedKey& wanted) const {
  const auto found = by_key.find(wanted);
  return found == by_key.end() ? nullptr : found->second;
}

MergedTree::TreeNode& MergedTree::TreeNode::Append(OwnedKey with) {
  children.push_back(std::make_unique<TreeNode>());
  TreeNode& child = *children.back();
  by_key[with] = &child;
  child.key = std::move(with);
  return child;
}

bool MergedTree::TreeNode::is_container() const { return IsContainer(kind); }

Status MergedTree::Add(uint32_t shard) {
  placed_.resize(checkpoint_.tensor_count());
  DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint_.OpenShard(shard));
  DSCKPT_RETURN_IF_ERROR(AddFlat(shard, file));
  const auto tree = file.tree();
  if (!tree) {
    flat_ = flat_ || file.tensor_count() != 0 || file.object_count() != 0;
    return Status();
  }
  root_.stored_children = std::max<size_t>(root_.stored_children, tree->size());
  return flat_ ? Status() : Walk(root_, *tree, shard, file);
}

/// Objects by name, for an output without a tree.
Status MergedTree::AddFlat(uint32_t shard, const File& file) {
  const auto rank = static_cast<uint32_t>(checkpoint_.shard(shard).rank);
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    const ObjectInfo info = file.object(i);
    if (file.IsRankOwn(info.name)) {
      flat_objects_.try_emplace(RankOwnName(rank, info.name),
                                ObjectRef{shard, std::string(info.name)});
      continue;
    }
    const auto [there, added] =
        flat_objects_.try_emplace(std::string(info.name), ObjectRef{shard, std::string(info.name)});
    if (added) continue;
    DSCKPT_ASSIGN_OR_RETURN(const File other, checkpoint_.OpenShard(there->second.shard));
    DSCKPT_ASSIGN_OR_RETURN(const ObjectInfo before, other.FindObject(info.name));
    DSCKPT_ASSIGN_OR_RETURN(const bool same, SameObject(other, before, file, info));
    if (same) continue;
    flat_objects_.try_emplace(RankOwnName(rank, info.name),
                              ObjectRef{shard, std::string(info.name)});
  }
  return Status();
}

Status MergedTree::Walk(TreeNode& into, const Node& from, uint32_t shard, const File& file) {
  int64_t position = 0;
  for (const Node& child : from) {
    const Key key = child.key();
    OwnedKey owned;
    owned.is_int = key.kind() != Key::Kind::kString;
    if (key.kind() == Key::Kind::kInt) owned.integer = key.integer();
    if (key.kind() == Key::Kind::kNone) owned.integer = position;
    if (key.kind() == Key::Kind::kString) owned.text = std::string(key.text());
    const size_t above = name_.size();
    if (!path_.empty()) name_ += '/';
    AppendNameSegment(name_, owned.key());
    path_.push_back(owned);
    Status status;
    if (!own_ && file.IsRankOwn(name_)) {
      own_ = true;
      status = PlaceOwn(into, child, shard, file);
      own_ = false;
    } else {
      status = Place(into, owned, child, shard, file);
    }
    path_.pop_back();
    name_.resize(above);
    DSCKPT_RETURN_IF_ERROR(status);
    ++position;
  }
  return Status();
}

Status MergedTree::PlaceOwn(TreeNode& into, const Node& from, uint32_t shard, const File& file) {
  ++rank_own_;
  const bool positions = into.kind != NodeKind::kDict || !MayLackKeys(into.tag);
  if (positions && into.Find(path_.back()) == nullptr) {
    into.Append(path_.back()).kind = NodeKind::kNull;
  }
  DSCKPT_ASSIGN_OR_RETURN(TreeNode * parent, PlaceOfRank(shard, file));
  return Place(*parent, path_.back(), from, shard, file);
}

Result<MergedTree::TreeNode*> MergedTree::PlaceOfRank(uint32_t shard, const File& file) {
  std::vector<OwnedKey> path{{false, 0, std::string(kRanksKey)},
                             {true, checkpoint_.shard(shard).rank, ""}};
  path.insert(path.end(), path_.begin(), path_.end() - 1);
  TreeNode* parent = &root_;
  for (const OwnedKey& step : path) {
    TreeNode* const next = parent->Find(step);
    parent = next != nullptr ? next : &parent->Append(step);
    if (parent->is_container()) continue;
    return Status(StatusCode::kAlreadyExists,
                  "what differs from rank to rank goes below '" + std::string(kRanksKey) +
                      "', but the state has a leaf '" + KeyText(step) +
                      "' in the way there: rename that leaf and save again")
        .WithPath(file.path());
  }
  return parent;
}

std::string MergedTree::LogicalName(const Node& from, uint32_t shard) const {
  const std::string name(from.item_name());
  if (!own_) return name;
  return RankOwnName(checkpoint_.shard(shard).rank, name);
}

Status MergedTree::Place(TreeNode& into, const OwnedKey& key, const Node& from, uint32_t shard,
                         const File& file) {
  TreeNode* there = into.Find(key);
  // The same place is the same name: most leaves of most ranks.
  if (there != nullptr && there->kind == NodeKind::kTensor && IsTensor(from.kind())) {
    return Status();
  }
  // Stored tensors that are no logical tensor, as flat buffers, show through their pieces alone.
  if (IsTensor(from.kind()) && !checkpoint_.FindTensor(LogicalName(from, shard)).ok())
    return Status();
  if (there == nullptr) return Fill(into.Append(key), from, shard, file);
  if (Joins(*there, from)) return Walk(*there, from, shard, file);
  DSCKPT_ASSIGN_OR_RETURN(const bool same, SameLeaf(*there, from, file));
  if (same) return Status();
  ++rank_specific_;
  DSCKPT_ASSIGN_OR_RETURN(TreeNode * parent, PlaceOfRank(shard, file));
  if (parent->Find(path_.back()) != nullptr) return Status();  // Several shards of one rank.
  return Fill(parent->Append(path_.back()), from, shard, file);
}

bool MergedTree::Joins(const TreeNode& there, const Node& from) {
  if (!there.is_container() || there.kind != from.kind() || there.tag != from.tag()) return false;
  return there.kind == NodeKind::kDict || there.stored_children == from.size();
}

Result<bool> MergedTree::SameLeaf(const TreeNode& there, const Node& from, const File& file) const {
  if (IsTensor(there.kind) || IsTensor(from.kind())) {
    return IsTensor(there.kind) && IsTensor(from.kind());
  }
  if (there.kind != from.kind() || there.tag != from.tag() || from.is_container()) return false;
  if (from.kind() != NodeKind::kObject) return SameValue(there.value, from.value());
  DSCKPT_ASSIGN_OR_RETURN(const File other, checkpoint_.OpenShard(there.object.shard));
  DSCKPT_ASSIGN_OR_RETURN(const ObjectInfo before, other.FindObject(there.object.name));
  DSCKPT_ASSIGN_OR_RETURN(const ObjectInfo now, file.FindObject(from.item_name()));
  return SameObject(other, before, file, now);
}

Status MergedTree::Fill(TreeNode& leaf, const Node& from, uint32_t shard, const File& file) {
  leaf.kind = from.kind();
  leaf.tag = std::string(from.tag());
  if (from.is_container()) {
    leaf.stored_children = from.size();
    return Walk(leaf, from, shard, file);
  }
  if (IsTensor(from.kind())) {
    leaf.kind = NodeKind::kTensor;
    DSCKPT_ASSIGN_OR_RETURN(const auto info, checkpoint_.FindTensor(LogicalName(from, shard)));
    leaf.tensor = info.ordinal;
    placed_[info.ordinal] = true;
  } else if (from.kind() == NodeKind::kObject) {
    leaf.object = {shard, std::string(from.item_name())};
    ++object_count_;
  } else {
    leaf.value = from.value();
  }
  return Status();
}

Status MergedTree::PlaceTensors() {
  for (uint32_t i = 0; i < checkpoint_.tensor_count() && !flat_; ++i) {
    if (!placed_[i] && !InsertPath(i)) flat_ = true;
  }
  if (flat_) object_count_ = flat_objects_.size();
  return Status();
}

/// False where the name is no path, or leads through a leaf.
bool MergedTree::InsertPath(uint32_t tensor) {
  std::string_view rest = checkpoint_.tensor(tensor).name;
  TreeNode* node = &root_;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view segment = rest.substr(0, slash);
    std::string text;
    const Result<Key> parsed = ParseNameSegment(segment, text);
    if (!parsed.ok()) return false;
    OwnedKey key;
    key.is_int = parsed->kind() == Key::Kind::kInt;
    if (key.is_int) key.integer = parsed->integer();
    if (!key.is_int) key.text = std::move(text);
    TreeNode* const next = node->Find(key);
    if (slash == std::string_view::npos) {
      if (next != nullptr) return false;
      TreeNode& leaf = node->Append(key);
      leaf.kind = NodeKind::kTensor;
      leaf.tensor = tensor;
      return true;
    }
    if (next != nullptr && !next->is_container()) return false;
    node = next != nullptr ? next : &node->Append(key);
    rest.remove_prefix(slash + 1);
  }
}

bool MergedTree::Wanted(const TreeNode& node, const std::vector<bool>& chosen, bool rest) const {
  if (node.kind == NodeKind::kTensor) return chosen[node.tensor];
  if (rest) return true;
  return std::any_of(node.children.begin(), node.children.end(),
                     [&](const auto& child) { return Wanted(*child, chosen, rest); });
}

bool MergedTree::IsIntact(const TreeNode& node, const std::vector<bool>& chosen, bool rest) const {
  if (!node.is_container()) return Wanted(node, chosen, rest);
  return node.children.size() == node.stored_children &&
         std::all_of(node.children.begin(), node.children.end(),
                     [&](const auto& child) { return IsIntact(*child, chosen, rest); });
}

void MergedTree::Emit(Description& description, const TreeNode& node, const Key& key,
                      const std::vector<bool>& chosen, bool rest, const DescribeTensor& tensor,
                      const DescribeObject& object) const {
  if (!Wanted(node, chosen, rest)) return;
  if (node.kind == NodeKind::kTensor) return tensor(description, key, node.tensor, node.tag);
  if (node.kind == NodeKind::kObject) return object(description, key, node.object, node.tag);
  if (!node.is_container()) return description.Leaf(key, node.value, node.tag);
  // A list of which a part is left out would count anew: then its positions become keys.
  bool gapless = true;
  for (size_t i = 0; i < node.children.size() && gapless && node.kind != NodeKind::kDict; ++i) {
    const OwnedKey& position = node.children[i]->key;
    gapless = position.is_int && position.integer == static_cast<int64_t>(i) &&
              Wanted(*node.children[i], chosen, rest);
  }
  const bool fits = (node.kind == NodeKind::kDict && MayLackKeys(node.tag)) ||
                    (gapless && IsIntact(node, chosen, rest));
  description.Begin(gapless ? node.kind : NodeKind::kDict, key, fits ? node.tag : "");
  for (const auto& child : node.children) {
    const bool position = gapless && node.kind != NodeKind::kDict;
    Emit(description, *child, position ? Key() : child->key.key(), chosen, rest, tensor, object);
  }
  description.End();
}

void MergedTree::Describe(Description& description, const std::vector<bool>& chosen, bool rest,
                          const DescribeTensor& tensor, const DescribeObject& object) const {
  if (flat_) {
    description.Flat();
    for (uint32_t i = 0; i < checkpoint_.tensor_count(); ++i) {
      if (chosen[i]) tensor(description, checkpoint_.tensor(i).name, i, {});
    }
    if (!rest) return;
    for (const auto& [name, ref] : flat_objects_) object(description, Key(name), ref, {});
    return;
  }
  for (const auto& child : root_.children) {
    Emit(description, *child, child->key.key(), chosen, rest, tensor, object);
  }
}

}  // namespace dsckpt::merge
