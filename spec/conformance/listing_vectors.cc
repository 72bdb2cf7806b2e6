#include <utility>

#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

// Rule F11: shards whose JSON header lists other tensors than their index, or is no JSON that can
// be said to list any. All sums are right, but for one. Programs that know safetensors alone would
// see other tensors, or none.

namespace dsckpt::conformance {
namespace {

class Collection {
 public:
  Collection(const std::string& mixed, const std::string& aliases)
      : mixed_(mixed), aliases_(aliases) {}

  /// What verification finds.
  Collection& Finds(std::string item, std::string kind) {
    item_ = std::move(item);
    kind_ = std::move(kind);
    return *this;
  }

  void Add(const char* name, std::string bytes) {
    vectors_.push_back({std::string("f11-") + name, std::move(bytes), StatusCode::kMismatch,
                        "JSON header", item_, kind_});
  }
  /// "mixed" with `to` for the first `from` of its header, which stays as long as it was.
  void Replaced(const char* name, std::string_view from, std::string_view to) {
    Add(name, WithHeader(mixed_, [=](std::string& header) {
          const size_t size = header.size();
          header.replace(header.find(from), from.size(), to);
          header.resize(size, ' ');
        }));
  }

  void Syntax();
  void Names();
  void Entries();
  void Shadows();
  std::vector<InvalidVector> Take() { return std::move(vectors_); }

 private:
  const std::string& mixed_;
  const std::string& aliases_;
  std::string item_, kind_;
  std::vector<InvalidVector> vectors_;
};

// What no strict parser of JSON takes, or what loaders would read each in its own way.
void Collection::Syntax() {
  std::string damaged = mixed_;
  damaged.at(TakeApart(mixed_).value().footer.data_begin - 1) = '!';
  Finds("header", "checksum").Add("damaged", std::move(damaged));

  Finds("header", "structure");
  Replaced("syntax", "\"m/w\":{", "\"m/w\";{");
  Replaced("garbage-behind", "]}}", "]}}{}");
  Add("brace-at-the-end", WithHeader(mixed_, [](std::string& header) { header.back() = '}'; }));
  Add("nul-at-the-end", WithHeader(mixed_, [](std::string& header) { header.back() = '\0'; }));
  Replaced("entry-array", "\"m/w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]}",
           "\"m/w\":[\"F32\",[2,3],[8,32]]");
  Replaced("entry-field", "\"m/w\":{", "\"m/w\":{\"more\":0,");
  Replaced("entry-field-twice", "\"shape\":[2,3]", "\"shape\":[3,2],\"shape\":[2,3]");
  Replaced("entry-field-missing", "\"shape\":[2,3],", "");
  Replaced("dtype-unknown", "\"F32\"", "\"Z32\"");
  Replaced("dtype-number", "\"F32\"", "12");
  Replaced("shape-fraction", "[2,3]", "[2,3.0]");
  Replaced("shape-text", "[2,3]", "[2,\"3\"]");
  Replaced("shape-true", "\"shape\":[2],", "\"shape\":[2,true],");
  Replaced("shape-object", "\"shape\":[2]", "\"shape\":{\"0\":2}");
  Replaced("offsets-minus", "[0,8]", "[-0,8]");
  Replaced("offsets-three", "[0,8]", "[0,8,8]");
  Replaced("metadata-number", "\"format\":\"pt\"", "\"format\":1");
  Replaced("metadata-nested", "\"format\":\"pt\"", "\"format\":{\"m/w\":\"\"}");
  Replaced("metadata-member-twice", "\"format\":\"pt\"", "\"format\":\"pt\",\"m/t2\":\"m/t1\"");
  Replaced("metadata-member-twice-ascending", "\"m/t2\":\"m/t1\"",
           "\"format\":\"np\",\"m/t2\":\"m/t1\"");
  Replaced("metadata-escape", "\"pt\"", "\"p\\x\"");
  Replaced("metadata-control", "\"pt\"", "\"p\n\"");
  Replaced("metadata-utf8", "\"pt\"", "\"p\xff\"");
  Replaced("metadata-surrogate", "\"pt\"", "\"p\\ud800\"");
  Replaced("metadata-unended", "\"m/t1\"},", "\"m/t1\",");
}

// One name in two ways.
void Collection::Names() {
  Finds("header", "structure");
  Replaced("name-twice", "\"m/f4\":{", "\"m/w\":{");
  Replaced("name-twice-unescaped", "\"m/f4\":{", "\"\\u006d/w\":{");
  Replaced("name-surrogate", "\"m/f4\":{", "\"m/\\udc00\":{");
  Replaced("metadata-twice", "\"m/t1\":{\"dtype\"", "\"__metadata__\":{},\"m/t1\":{\"dtype\"");
  Replaced("metadata-twice-last", "]}}", "]},\"__metadata__\":{\"format\":\"pt\"}}");
  Replaced("tail-twice", "\"m/f4\":{", "\"__dsckpt__\":{");
}

// Entries that differ from the index's tensors.
void Collection::Entries() {
  Finds("m/w", "header-mismatch");
  Replaced("dtype", "\"F32\"", "\"I32\"");
  Replaced("shape", "[2,3]", "[3,2]");
  Replaced("shape-rank", "[2,3]", "[2,3,1]");
  Replaced("renamed", "\"m/w\":{", "\"m/v\":{");
  Finds("dsckpt.bytes", "header-mismatch");
  Add("offsets-swapped", WithHeader(aliases_, [](std::string& header) {
        header.replace(header.find("[0,16]"), 6, "[16,32]");
        header.replace(header.rfind("[16,32]"), 7, "[0,16]");
      }));
  Finds("header", "header-mismatch");
  Replaced("no-tail", "\"__dsckpt__\"", "\"__dsckpx__\"");
  Finds("__dsckpt__", "header-mismatch");
  Replaced("tail-dtype", "\"dtype\":\"U8\"", "\"dtype\":\"I8\"");
  Replaced("tail-shape", "[10134               ]", "[10134,1             ]");
  Finds("header", "header-mismatch");
  Add("missing", WithHeader(mixed_, [](std::string& header) {
        const size_t size = header.size(), begin = header.find("\"m/f4\"");
        header.erase(begin, header.find("\"__dsckpt__\"") - begin);
        header.replace(header.find("10134"), 5, "10136");
        header.replace(header.find("[34 "), 4, "[32 ");
        header.resize(size, ' ');
      }));
  // All names are left out although there is room for them.
  Add("alone", WithHeader(mixed_, [](std::string& header) {
        const size_t size = header.size(), begin = header.find("\"m/t1\":{");
        header.erase(begin, header.find("\"__dsckpt__\"") - begin);
        header.replace(header.find("10134"), 5, "10168");
        header.replace(header.find("[34 "), 4, "[0  ");
        header.resize(size, ' ');
      }));
}

// Tensors that the index does not list, in front of what it has at their places.
void Collection::Shadows() {
  Finds("header", "header-mismatch");
  const auto empty = [](std::string_view name) {
    return "\"" + std::string(name) + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},";
  };
  const std::pair<const char*, const char*> names[] = {{"ghost", "ghost"},
                                                       {"alias-listed", "m/t2"},
                                                       {"unlisted-listed", "m/c"},
                                                       {"encoded-listed", "m/z"},
                                                       {"object-listed", "o/0"}};
  for (const auto& [name, shadow] : names) {
    Replaced(name, "\"m/w\":{", empty(shadow) + "\"m/w\":{");
  }
  // The first bytes of the tail, among them those of the tensor that the index calls so.
  Add("into-the-tail", WithHeader(mixed_, [](std::string& header) {
        const size_t size = header.size();
        header.replace(header.find("10134"), 5, "6000 ");
        header.replace(header.find("[34 "), 6, "[4168 ");
        header.insert(header.find("\"__dsckpt__\""),
                      "\"m/c\":{\"dtype\":\"U8\",\"shape\":[4134],\"data_offsets\":[34,4168]},");
        header.resize(size, ' ');
      }));
}

}  // namespace

std::vector<InvalidVector> InvalidListings(const std::string& mixed, const std::string& aliases) {
  Collection collection(mixed, aliases);
  collection.Syntax();
  collection.Names();
  collection.Entries();
  collection.Shadows();
  return collection.Take();
}

}  // namespace dsckpt::conformance
