#include "aten/torchscript_operators.h"

#include <sstream>
#include <unordered_map>
#include <unordered_set>

namespace isobit::aten {
namespace {

struct Group {
  ScriptRule rule;
  const char* entries;
};

constexpr Group kGroups[] = {
    // Control flow, calls (their graphs are looked at where a script is checked) and objects. Python's functions within
    // a
    // script compute as any Python code does.
    {ScriptRule::allowed,
     "prim::Param prim::Return prim::Constant prim::If prim::IfThenElse prim::Loop prim::CallFunction prim::CallMethod "
     "prim::Function prim::Closure prim::fork prim::forkClosure prim::awaitable prim::awaitableClosure "
     "prim::awaitable_wait prim::awaitable_nowait aten::wait prim::PythonOp prim::IgnoredPythonOp "
     "prim::CreateObject prim::GetAttr prim::SetAttr prim::HasAttr prim::ModuleContainerIndex.* "
     "prim::Store prim::Load prim::Drop prim::Enter prim::Exit prim::RaiseException prim::Print aten::warn "
     "prim::Uninitialized prim::unchecked_cast prim::unchecked_unwrap_optional aten::_unwrap_optional prim::annotate "
     "prim::isinstance aten::__is__ aten::__isnot__ aten::__not__ prim::EnumName prim::EnumValue.* "
     "prim::TracedModuleForward prim::TracedFork prim::TracedAttr "
     "aten::is_scripting aten::_get_tracing_state aten::has_torch_function"},
    // Containers. Sorting is here only where equal elements cannot be told apart: zeros have signs.
    {ScriptRule::allowed,
     "prim::ListConstruct prim::ListUnpack prim::DictConstruct prim::TupleConstruct prim::TupleUnpack prim::TupleIndex "
     "prim::TupleSlice prim::rangelist aten::append.* aten::extend.* aten::insert.* aten::pop.* aten::popitem.* "
     "aten::clear.* aten::reverse.* aten::copy.* aten::list.* aten::dict.* aten::keys.* aten::values.* aten::items.* "
     "aten::get.* aten::setdefault.* aten::update.* aten::Delete.* aten::_set_item.* aten::__getitem__.* "
     "aten::__contains__.* aten::len.* aten::remove.* aten::count.* aten::index.list_Tensor aten::index.list_bool "
     "aten::index.list_float aten::index.list_int aten::index.list_str aten::slice.t aten::select.t aten::add.t "
     "aten::add_.t aten::mul.left_t aten::mul.right_ aten::mul_.t aten::any.* aten::all.* aten::sort.int "
     "aten::sort.bool "
     "aten::sort.str aten::sorted.int aten::sorted.bool aten::sorted.str aten::__range_length aten::__derive_index"},
    {ScriptRule::allowed,
     "aten::str aten::ord aten::chr aten::bin aten::hex aten::oct aten::add.str aten::slice.str prim::StringIndex "
     "aten::index.str aten::capitalize aten::center aten::endswith aten::expandtabs aten::find aten::format "
     "aten::isalnum aten::isalpha aten::isdecimal aten::isdigit aten::isidentifier aten::islower aten::isnumeric "
     "aten::isprintable aten::isspace aten::istitle aten::isupper aten::join aten::ljust aten::lower aten::lstrip "
     "aten::partition aten::percentFormat aten::replace aten::rfind aten::rindex aten::rjust aten::rpartition "
     "aten::rsplit aten::rstrip aten::split.str aten::splitlines aten::startswith aten::strip aten::swapcase "
     "aten::title "
     "aten::upper aten::zfill"},
    // Integers, and comparisons of everything.
    {ScriptRule::allowed,
     "aten::add.int aten::sub.int aten::mul.int aten::floordiv.int aten::__round_to_zero_floordiv.int "
     "aten::remainder.int "
     "aten::divmod.int aten::neg.int prim::abs.int aten::fabs.int aten::ceil.int aten::floor.int aten::gcd.int "
     "aten::factorial.int aten::sum.int aten::sum.bool "
     "aten::__and__.bool aten::__or__.bool aten::__xor__.bool aten::__and__.int aten::__or__.int aten::__xor__.int "
     "aten::__lshift__.int aten::__rshift__.int "
     "aten::eq.* aten::ne.* aten::lt.* aten::le.* aten::gt.* aten::ge.* prim::min.* prim::max.* "
     "aten::isnan.* aten::isinf.* aten::isfinite.*"},
    // One correctly rounded operation on binary64, or a remainder, which is exact; sums in the order of the list.
    {ScriptRule::allowed,
     "aten::add.float aten::add.float_int aten::add.int_float aten::sub.float aten::sub.float_int aten::sub.int_float "
     "aten::mul.float aten::mul.float_int aten::mul.int_float aten::div.float "
     "aten::div.int aten::neg.float prim::abs.float aten::fabs.float aten::fabs.Scalar aten::sqrt.float aten::sqrt.int "
     "aten::round.* aten::copysign.* aten::floordiv.* aten::fmod.* aten::remainder.* aten::mathremainder.* "
     "aten::frexp aten::ldexp aten::modf aten::sum.float "
     "aten::add.complex aten::add.complex_float aten::add.complex_int aten::add.float_complex aten::add.int_complex "
     "aten::sub.complex aten::sub.complex_float aten::sub.complex_int aten::sub.float_complex aten::sub.int_complex "
     "aten::neg.complex aten::sum.complex aten::neg.Scalar aten::add aten::sub"},
    {ScriptRule::real, "aten::mul aten::div aten::sqrt.Scalar prim::abs.Scalar"},
    {ScriptRule::fits,
     "aten::Int.float aten::Int.Scalar aten::ceil.float aten::floor.float aten::ceil.Scalar aten::floor.Scalar"},
    // Conversions.
    {ScriptRule::allowed,
     "aten::Bool.* aten::Int.Tensor aten::Int.bool aten::Int.str aten::Float.* aten::Complex.* aten::IntImplicit "
     "aten::FloatImplicit aten::ComplexImplicit aten::ScalarImplicit prim::NumToTensor.* prim::tolist aten::tensor.* "
     "aten::as_tensor.* aten::_list_to_tensor aten::_tensor_to_list"},
    // What tensors and devices say of themselves.
    {ScriptRule::allowed,
     "aten::size aten::stride aten::sym_size aten::sym_stride aten::Size prim::device prim::dtype prim::layout "
     "prim::requires_grad prim::grad prim::data prim::itemsize prim::nbytes prim::name prim::index prim::type "
     "prim::is_cpu prim::is_cuda prim::is_ipu prim::is_maia prim::is_meta prim::is_mkldnn prim::is_mps prim::is_mtia "
     "prim::is_nested prim::is_quantized prim::is_sparse prim::is_sparse_csr prim::is_vulkan prim::is_xla prim::is_xpu "
     "aten::device.* aten::broadcast_shapes aten::_infer_size aten::is_grad_enabled aten::set_grad_enabled "
     "aten::is_autocast_enabled aten::is_autocast_cpu_enabled aten::get_autocast_dtype"},
    // Code of the JIT's that calls operators of the dispatcher.
    {ScriptRule::allowed,
     "prim::ConstantChunk aten::cpu aten::cuda aten::numpy_T.a aten::mT.a aten::mH.a aten::matrix_H.a "
     "aten::to.prim_Device "
     "aten::to.prim_dtype "
     "aten::to.prim_other aten::copy_.Tensor aten::copy_.float aten::copy_.int aten::einsum.sublist aten::split "
     "prim::abs "
     "aten::index.Tensor_hacked_twin aten::index_put.hacked_twin aten::index_put_.hacked_twin "
     "aten::_index_put_impl_.hacked_twin aten::_unsafe_index.Tensor_hacked_twin aten::_unsafe_index_put.hacked_twin "
     "aten::_no_grad_embedding_renorm_ aten::_no_grad_fill_ aten::_no_grad_normal_ aten::_no_grad_uniform_ "
     "aten::_no_grad_zero_ aten::_pack_sequence aten::__interpolate.* aten::__upsample.* aten::__upsample_bilinear.* "
     "aten::__upsample_nearest.* aten::backward.* aten::grad"},
};

constexpr std::string_view kEveryOverload = ".*";

std::unordered_map<std::string, ScriptRule> read_list() {
  std::unordered_map<std::string, ScriptRule> rules;
  for (const Group& group : kGroups) {
    std::istringstream entries(group.entries);
    for (std::string entry; entries >> entry;) rules.emplace(entry, group.rule);
  }
  return rules;
}

const std::unordered_map<std::string, ScriptRule>& rules() {
  static const auto& list = *new std::unordered_map<std::string, ScriptRule>(read_list());
  return list;
}

std::string_view without_overload(std::string_view full_name) { return full_name.substr(0, full_name.find('.')); }

bool is_file_or_process(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {
      "aten::save", "aten::load", "prim::id", "aten::hash", "prim::TimePoint", "aten::_get_cpu_capability"};
  return names.contains(name) || name.starts_with("prim::rpc_");
}

bool is_fused(std::string_view name) {
  return name.starts_with("prim::TensorExpr") || name.ends_with("FusionGroup") || name == "prim::DifferentiableGraph" ||
         name == "prim::StaticSubgraph" || name.starts_with("prim::MKLDNN");
}

}  // namespace

ScriptRule script_rule(std::string_view full_name) {
  const auto& list = rules();
  if (const auto exact = list.find(std::string(full_name)); exact != list.end()) return exact->second;
  const auto every = list.find(std::string(without_overload(full_name)).append(kEveryOverload));
  return every == list.end() ? ScriptRule::refused : every->second;
}

std::string script_remedy(std::string_view full_name) {
  const std::string_view name = without_overload(full_name);
  if (is_file_or_process(name))
    return "leave it out of the script: what a script computes must depend on its arguments alone";
  if (name == "aten::manual_seed" || name == "aten::seed" || name == "aten::Generator") {
    return "leave it out of the script, and call isobit.seed before";
  }
  if (is_fused(name)) return "compile the script again: isobit runs it without fusers";
  if (full_name.find("omplex") != full_name.npos) return "compute the real and the imaginary part";
  if (name.starts_with("aten::")) {
    return "compute it as a tensor (torch.as_tensor(x) of a number x)";
  }
  return "write it with operators on tensors";
}

std::vector<std::string_view> script_entries() {
  std::vector<std::string_view> entries;
  for (const auto& rule : rules()) entries.push_back(rule.first);
  return entries;
}

}  // namespace isobit::aten
