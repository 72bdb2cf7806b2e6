#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

using Names = std::vector<std::string>;
using Part = std::shared_ptr<const StateProvider>;

const EngineOptions kSmall = {.pool_bytes = 8 * kMiB};

Names RankOwnNames(const File& file) {
  const auto names = file.RankOwnNames();
  return {names.begin(), names.end()};
}

/// Logical names of a tensor's pieces; {} for a tensor that is one by itself.
Names LogicalNames(const File& file, std::string_view tensor) {
  Names names;
  for (const OwnedPiece& piece : file.Pieces(file.FindTensor(tensor).value())) {
    CHECK(piece.form == Piece::Form::kBox);
    CHECK(piece.box.size() == piece.logical_shape.size());
    names.push_back(piece.logical_name);
  }
  return names;
}

struct Saved {
  TempDir dir;
  Status status;
  std::optional<File> opened;
  const File& file() const { return *opened; }
};

std::unique_ptr<Saved> Save(const StateProvider& provider) {
  auto saved = std::make_unique<Saved>();
  const std::string path = saved->dir / "f.dsckpt";
  saved->status = SaveFile(path, provider, {}, kSmall);
  if (saved->status.ok()) {
    auto file = File::Open(path);
    INFO(file.status().ToString());
    REQUIRE(file.ok());
    saved->opened = std::move(file).value();
  }
  return saved;
}

float numbers[4] = {1, 2, 3, 4};
float others[4] = {5, 6, 7, 8};
float more[4] = {9, 10, 11, 12};

TensorSource Floats(const float* data = numbers) {
  static const int64_t kShape[] = {4};
  return {.data = data, .dtype = kF32, .shape = kShape};
}

Part Weights(std::string key, const float* data = numbers) {
  return MakeProvider(
      [key = std::move(key), data](Description& d) { d.Tensor(key, Floats(data)); });
}

}  // namespace

TEST_CASE("rank own: tensors carry their rank, subtrees are recorded") {
  State state;
  int64_t seed = 7;
  state.AddTensor("model/w", std::span<float>(numbers));
  state.AddTensor("rng/torch", std::span<float>(others));
  state.AddBytes("rng/python", &seed, sizeof seed);
  state.AddBytes("loader", &seed, sizeof seed);
  state.RankOwn("rng", 3);
  state.RankOwn("loader", 3);
  const auto saved = Save(state);
  REQUIRE(saved->status.ToString() == "Ok");
  const File& file = saved->file();
  CHECK(RankOwnNames(file) == Names{"loader", "rng"});
  CHECK(LogicalNames(file, "rng/torch") == Names{"ranks/3/rng/torch"});
  CHECK(file.Pieces(file.FindTensor("rng/torch").value())[0].box == std::vector<Range>{{0, 4}});
  CHECK(LogicalNames(file, "model/w").empty());
  CHECK(file.IsRankOwn("rng/python"));
  CHECK_FALSE(file.IsRankOwn("model/w"));
}

TEST_CASE("rank own: what a provider puts into the open container, and no more") {
  const Part own = RankOwn(Combine({Weights("a"), WithPrefix("d", Weights("b", others))}), 1);
  const auto saved = Save(*WithPrefix("x", Combine({Weights("shared"), own, Weights("last")})));
  REQUIRE(saved->status.ToString() == "Ok");
  CHECK(RankOwnNames(saved->file()) == Names{"x/a", "x/d"});
  CHECK(LogicalNames(saved->file(), "x/d/b") == Names{"ranks/1/x/d/b"});
}

TEST_CASE("rank own: tied names, each by its own owner") {
  const auto saved =
      Save(*Combine({RankOwn(Weights("a"), 2), Weights("b"), RankOwn(Weights("c"), 2)}));
  REQUIRE(saved->status.ToString() == "Ok");
  CHECK(saved->file().tensor_count() == 1);
  CHECK(LogicalNames(saved->file(), "b") == Names{"b", "ranks/2/a", "ranks/2/c"});
  CHECK(RankOwnNames(saved->file()) == Names{"a", "c"});
}

TEST_CASE("rank own: elements of lists, values and empty containers") {
  const auto provider = MakeProvider([](Description& d) {
    d.Begin(NodeKind::kList, "l");
    d.Tensor({}, Floats());
    const auto before = d.SetRankOwn(0);
    CHECK(before == std::nullopt);
    d.Tensor({}, Floats(others));
    d.Leaf({}, int64_t{5});
    d.Begin(NodeKind::kDict, {});
    d.End();
    CHECK(d.SetRankOwn(before) == 0u);
    d.Leaf({}, int64_t{6});
    d.End();
  });
  const auto saved = Save(*provider);
  REQUIRE(saved->status.ToString() == "Ok");
  CHECK(RankOwnNames(saved->file()) == Names{"l/1", "l/2", "l/3"});
  CHECK(LogicalNames(saved->file(), "l/0").empty());
  CHECK(LogicalNames(saved->file(), "l/1") == Names{"ranks/0/l/1"});
}

TEST_CASE("rank own: inside itself it changes nothing, Sharded() around it neither") {
  const PiecesOf halves = [](std::string_view name, std::span<const int64_t>) {
    return std::vector<OwnedPiece>{
        {.logical_name = std::string(name), .logical_shape = {8}, .box = {{0, 4}}}};
  };
  const Part own = RankOwn(WithPrefix("own", RankOwn(Weights("t"), 1)), 1);
  const auto saved = Save(*Sharded(Combine({Weights("w", others), own}), halves));
  REQUIRE(saved->status.ToString() == "Ok");
  CHECK(RankOwnNames(saved->file()) == Names{"own"});
  CHECK(LogicalNames(saved->file(), "own/t") == Names{"ranks/1/own/t"});
  CHECK(LogicalNames(saved->file(), "w") == Names{"w"});

  const auto refused = Save(*RankOwn(Sharded(Weights("w"), halves), 1));
  CHECK(refused->status.code() == StatusCode::kInvalidArgument);
  CHECK(refused->status.message().find("which several ranks hold, and so no rank's own") !=
        std::string::npos);
}

TEST_CASE("rank own: what cannot be is refused before there is a file") {
  const auto message = [](const StateProvider& provider, StatusCode code) {
    const auto saved = Save(provider);
    CHECK(saved->status.code() == code);
    return saved->status.message();
  };
  SECTION("two ranks in one state") {
    CHECK(message(*Combine({RankOwn(Weights("a"), 0), RankOwn(Weights("b", others), 1)}),
                  StatusCode::kInvalidArgument)
              .find("rank 0's own and what is rank 1's own") != std::string::npos);
    State state;
    state.AddTensor("a", std::span<float>(numbers));
    state.RankOwn("a", 0);
    state.RankOwn("a", 1);
    CHECK(message(state, StatusCode::kInvalidArgument).find("of rank 0 and of rank 1") !=
          std::string::npos);
  }
  SECTION("shared again below it") {
    CHECK(message(*MakeProvider([](Description& d) {
            (void)d.SetRankOwn(1);
            d.Begin(NodeKind::kDict, "own");
            (void)d.SetRankOwn(std::nullopt);
            d.End();
          }),
                  StatusCode::kInvalidArgument)
              .find("all below what is a rank's own is its own: 'own/'") != std::string::npos);
  }
  SECTION("nothing registered") {
    State state;
    state.AddTensor("a", std::span<float>(numbers));
    state.RankOwn("b", 0);
    CHECK(message(state, StatusCode::kInvalidArgument).find("nothing is registered there") !=
          std::string::npos);
  }
  SECTION("what stands where the own ones of all ranks go") {
    const Part leaf = MakeProvider([](Description& d) { d.Leaf("ranks", int64_t{5}); });
    const Part inner = WithPrefix("x", WithPrefix("ranks", Weights("a")));
    const Part own = RankOwn(Weights("b", others), 0);
    for (const Part& shared : {Part(WithPrefix("ranks", Weights("a"))), leaf}) {
      CHECK(message(*Combine({inner, shared, own}), StatusCode::kAlreadyExists)
                .find("'ranks' stands where") == 0);
      CHECK(message(*shared, StatusCode::kOk).empty());  // Nothing is declared.
    }
    CHECK(message(*Combine({inner, own}), StatusCode::kOk).empty());
    CHECK(message(*RankOwn(Weights("ranks"), 0), StatusCode::kOk).empty());
  }
  SECTION("names without a tree") {
    const auto flat = [](const char* shared) {
      return MakeProvider([shared](Description& d) {
        d.Flat();
        d.Tensor(shared, Floats());
        (void)d.SetRankOwn(0);
        d.Tensor("a", Floats(others));
        d.Tensor("a/b", Floats(more));
      });
    };
    const auto saved = Save(*flat("b"));
    REQUIRE(saved->status.ToString() == "Ok");
    CHECK(RankOwnNames(saved->file()) == Names{"a"});
    CHECK(message(*flat("ranks/0/a"), StatusCode::kAlreadyExists).find("'ranks/0/a'") == 0);
    CHECK(message(*flat("a/x"), StatusCode::kInvalidArgument).find("the beginnings of others") !=
          std::string::npos);
  }
  SECTION("plain safetensors") {
    TempDir dir;
    const Status status = SaveFile(dir / "f.safetensors", *RankOwn(Weights("a"), 0),
                                   {.container = Container::kSafetensors}, kSmall);
    CHECK(status.code() == StatusCode::kUnsupported);
    CHECK(status.message().find("declared to be a rank's own") != std::string::npos);
  }
}

TEST_CASE("rank own: a mark that comes or goes is no layout to reuse") {
  TempDir dir;
  const auto engine = Engine::Create(kSmall).value();
  const Part objects =
      MakeProvider([](Description& d) { d.Object("o", {.bytes = numbers, .size = 4}); });
  const auto names = [&](const StateProvider& provider) {
    REQUIRE(engine->Save(dir / "f", provider).value().WaitDurable().ok());
    return RankOwnNames(File::Open(dir / "f").value());
  };
  CHECK(names(*objects) == Names());
  CHECK(names(*RankOwn(objects, 0)) == Names{"o"});
  CHECK(names(*RankOwn(objects, 0)) == Names{"o"});
  CHECK(names(*objects) == Names());
}
