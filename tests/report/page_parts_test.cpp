// What a page is built of: escapes, policy, settings, predictions, tables, and documents of whole archives.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/small_run.h"
#include "report/document.h"
#include "report/page.h"
#include "report/qr_code.h"
#include "report/tables.h"

namespace isobit::report {
namespace {

using archive::error_of;
using archive::finished_run;
using archive::Scratch;
namespace fs = std::filesystem;

const std::string kHostile = "</script><script>alert(1)</script><!--\xe2\x80\xa8&\"'";

// The contents of all elements of this kind, as a browser cuts them out: up to the first end tag.
std::vector<std::string> contents_of(const std::string& page, const std::string& begin, const std::string& end) {
  std::vector<std::string> found;
  for (auto at = page.find(begin); at != std::string::npos; at = page.find(begin, at)) {
    at += begin.size();
    found.push_back(page.substr(at, page.find(end, at) - at));
  }
  return found;
}

TEST(Page, TextsAreEscaped) {
  EXPECT_EQ(html_text("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  const std::string text = json_for_script(Json{{"name", kHostile}});
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; })) << text;
  EXPECT_EQ(Json::parse(text)["name"], kHostile);
  EXPECT_TRUE(Json::parse(json_for_script(Json("\xff\xfe"))).is_string());  // bytes that are no UTF-8
}

TEST(Page, DigestsAreThoseOfRfc6234) {
  EXPECT_EQ(policy_digest(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(policy_digest("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

TEST(Page, PolicyNamesExactlyTheScriptsAndTheStyleOfThePage) {
  Scratch scratch;
  ReportParts parts;
  parts.runs.push_back(read_run(finished_run(scratch.runs())));
  const std::string text = page(document(parts));
  const auto scripts = contents_of(text, "<script>", "</script>"),
             styles = contents_of(text.substr(0, text.find("<body>")), "<style>", "</style>");
  ASSERT_EQ(scripts.size(), 3u);
  ASSERT_EQ(styles.size(), 1u);
  const std::string policy_text = contents_of(text, "http-equiv=\"Content-Security-Policy\" content=\"", "\"")[0];
  for (const std::string& script : scripts) {
    EXPECT_NE(policy_text.find("'" + policy_digest(script) + "'"), std::string::npos);
    EXPECT_EQ(script.find("<!--"), std::string::npos);
  }
  EXPECT_NE(policy_text.find("style-src '" + policy_digest(styles[0]) + "'"), std::string::npos);
  EXPECT_TRUE(policy_text.starts_with("default-src 'none'; ")) << policy_text;
  EXPECT_EQ(policy_text.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy_text.find("connect-src"), std::string::npos);
  EXPECT_NE(policy({.live = true}).find("connect-src 'self'"), std::string::npos);
  // Nothing that a browser would load.
  const std::string own = text.substr(0, text.find("<script type="));
  EXPECT_EQ(own.find("src="), std::string::npos);
  EXPECT_EQ(own.find("url("), std::string::npos);
  EXPECT_EQ(own.find("@import"), std::string::npos);
}

TEST(Page, HostileNamesAreText) {
  Scratch scratch;
  ReportParts parts;
  parts.title = kHostile;
  parts.runs.push_back(read_run(finished_run(scratch.runs())));
  parts.runs[0].summary.name = parts.runs[0].summary.weights = kHostile;
  parts.runs[0].settings = {{kHostile, kHostile}};
  parts.runs[0].metrics = {{8, 2, "test", {{kHostile, 0.5}}}};
  parts.runs[0].environment = Json{{kHostile, kHostile}}.dump();
  const std::string text = page(document(parts));
  EXPECT_EQ(text.find("<script>alert"), std::string::npos);
  const auto data = contents_of(text, "id=\"report\">", "</script>");
  ASSERT_EQ(data.size(), 1u);
  const Json parsed = Json::parse(data[0]);
  EXPECT_NE(parsed["runs"][0]["name"].get<std::string>().find("</script><script>alert(1)"), std::string::npos);
  // Marks that turn or hide text come as escapes.
  EXPECT_EQ(parsed["runs"][0]["name"].get<std::string>().find("\xe2\x80\xa8"), std::string::npos);
}

TEST(Page, TheSameRecordGivesTheSameBytes) {
  Scratch scratch;
  finished_run(scratch.runs(), "one");
  finished_run(scratch.runs(), "two");
  const auto make = [&] {
    std::vector<fs::path> folders;
    for (const auto& summary : archive::list_runs(scratch.runs())) folders.push_back(scratch.runs() / summary.id);
    ReportParts parts;
    parts.runs = read_runs(folders);
    return page(document(parts));
  };
  EXPECT_EQ(make(), make());
}

TEST(Page, AThousandRunsStayBelowTenMegabytes) {
  Scratch scratch;
  const RunEntry entry = read_run(finished_run(scratch.runs()));
  ReportParts parts;
  for (int i = 0; i < 1000; ++i) {
    parts.runs.push_back(entry);
    RunEntry& run = parts.runs.back();
    run.summary.id = "20261121-045835-small-" + std::to_string(10000000 + i);
    run.settings = parse_settings(run.experiment);
    run.settings.emplace_back("seed2", std::to_string(i));
    for (int k = 0; k < 40; ++k)
      run.settings.emplace_back("section.key" + std::to_string(k), "\"a value that all share\"");
    run.loss = {};
    for (int step = 1; step <= 3000; ++step) {
      run.loss.steps.push_back(step);
      run.loss.values.push_back(std::sin(step * 0.01 + i) * 1.2345678);
    }
    run.loss.of = 3000;
  }
  const std::string text = page(document(parts));
  EXPECT_LT(text.size(), 10'000'000u);
  const Json data = Json::parse(contents_of(text, "id=\"report\">", "</script>")[0]);
  EXPECT_EQ(data["runs"].size(), 1000u);
  EXPECT_EQ(data["runs"][7]["loss"]["of"], 3000);
  EXPECT_LT(data["runs"][7]["loss"]["steps"].size(), 300u);
  EXPECT_EQ(data["differing"], Json::parse(R"(["seed2"])"));
}

TEST(Run, DamagedOnesAreShownWithoutNumbers) {
  Scratch scratch;
  const fs::path sound = finished_run(scratch.runs(), "sound"), damaged = finished_run(scratch.runs(), "damaged");
  std::string log = archive::read_file(damaged / "metrics.jsonl");
  log[log.size() / 2] ^= 1;
  archive::overwrite(damaged / "metrics.jsonl", log);
  const auto runs = read_runs({sound, damaged});
  EXPECT_EQ(runs[0].summary.state, archive::RunState::finished);
  EXPECT_EQ(runs[0].verify, "isobit verify " + runs[0].summary.id);
  EXPECT_EQ(runs[1].summary.state, archive::RunState::damaged);
  EXPECT_TRUE(runs[1].metrics.empty() && runs[1].loss.steps.empty() && runs[1].verify.empty() && runs[1].seal.empty());
  EXPECT_NE(runs[1].summary.note.find("metrics.jsonl"), std::string::npos) << runs[1].summary.note;
}

TEST(Run, UnfinishedOnesAreReadAsFarAsTheyAreWhole) {
  Scratch scratch;
  fs::path folder;
  {
    archive::RunWriter writer = archive::RunWriter::create(scratch.runs(), archive::small_inputs());
    archive::write_steps(writer, 1, 5);
    folder = writer.folder();
    EXPECT_EQ(read_run(folder).summary.state, archive::RunState::running);
    EXPECT_EQ(read_run(folder).summary.note, "");  // not the name of the machine
  }
  std::ofstream(folder / "steps.jsonl", std::ios::app) << "{\"step\":6,\"epo";
  const RunEntry run = read_run(folder);
  EXPECT_EQ(run.summary.state, archive::RunState::interrupted);
  EXPECT_EQ(run.loss.steps.size(), 5u);
  EXPECT_EQ(run.verify, "");
}

TEST(Settings, OneSpellingInTablesAndOut) {
  const Settings settings =
      parse_settings("name = \"a = b\"\nseed = 7\n# a comment\n\n[optimizer]\nlr = 0.1\nhidden = [1, 2]\nnonsense\n");
  const Settings expected = {
      {"name", "\"a = b\""}, {"seed", "7"}, {"optimizer.lr", "0.1"}, {"optimizer.hidden", "[1, 2]"}};
  EXPECT_EQ(settings, expected);
  const Settings other = {{"name", "\"a = b\""}, {"seed", "8"}, {"optimizer.lr", "0.1"}};
  const SharedSettings shared = compare_settings({&settings, &other});
  EXPECT_EQ(shared.common, (Settings{{"name", "\"a = b\""}, {"optimizer.lr", "0.1"}}));
  EXPECT_EQ(shared.differing, (std::vector<std::string>{"seed", "optimizer.hidden"}));
}

std::string predictions_line(int step, const std::string& set, const std::vector<std::int64_t>& classes,
                             const std::string& digest) {
  return Json{{"step", step}, {"epoch", 1}, {"set", set}, {"predictions", classes}, {"targets", digest}}.dump() + "\n";
}

TEST(Predictions, TheLastLineOfEachSetAndTargetsByTheirDigest) {
  const std::vector<std::int64_t> targets = {0, 1, 2, 2, 1}, said = {0, 2, 2, 2, 1};
  // SHA-256 of the five little-endian int64, by Python's hashlib.
  EXPECT_EQ(digest_of_targets(targets), "f3e6684ab1495428031d98f2b42193fad109ab4afe8093168f8675e4780137ce");
  const std::string digest = digest_of_targets(targets);
  const std::string log =
      predictions_line(1, "test", {1, 1, 1, 1, 1}, digest) + predictions_line(2, "test", said, digest);
  const auto last = last_predictions(log, "predictions.jsonl", false);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].step, 2);
  EXPECT_EQ(last[0].predictions, said);
  EXPECT_EQ(confusion(targets, said), (std::vector<std::vector<std::int64_t>>{{1, 0, 0}, {0, 1, 1}, {0, 0, 2}}));
  EXPECT_TRUE(confusion(targets, {0, 1}).empty());
  EXPECT_TRUE(confusion({-1}, {0}).empty());
  EXPECT_TRUE(confusion({0}, {1'000'000'000}).empty());  // nothing is allocated for it
  EXPECT_EQ(last_predictions(log + "{\"step\":3", "p", true).size(), 1u);
  EXPECT_NE(error_of([&] { (void)last_predictions(log + "{\"step\":3", "p", false); }), "");
  EXPECT_NE(error_of([&] { (void)last_predictions(log + "{\"step\":3}\n", "p", true); }).find("p:3"),
            std::string::npos);
}

TEST(Predictions, TargetsOfAnotherEvaluationAreRefused) {
  Scratch scratch;
  ReportParts parts;
  parts.runs.push_back(read_run(finished_run(scratch.runs())));
  parts.targets = std::vector<std::int64_t>{1, 2};
  EXPECT_NE(error_of([&] { (void)document(parts); }).find("no run kept its predictions"), std::string::npos);
  parts.runs[0].predictions = {{8, 2, "test", {1, 2}, std::string(64, 'a')}};
  EXPECT_NE(error_of([&] { (void)document(parts); }).find("no run was evaluated on these"), std::string::npos);
  parts.runs[0].predictions[0].targets = digest_of_targets(*parts.targets);
  EXPECT_EQ(document(parts)["runs"][0]["predictions"][0]["counts"][1][1], 1);
  parts.found_targets[digest_of_targets(*parts.targets)] = *parts.targets;
  parts.targets.reset();
  EXPECT_EQ(document(parts)["runs"][0]["predictions"][0]["counts"][1][1], 1);  // found in the run's data
  parts.found_targets.clear();
  const Json without = document(parts)["runs"][0]["predictions"][0];
  EXPECT_TRUE(without["counts"].is_null());
  EXPECT_NE(without["why"].get<std::string>().find("only a digest"), std::string::npos);
}

TEST(QrCode, HasTheThreeFinders) {
  const auto rows = qr_code("isobit verify 20261121-045835-small-3f9a2c01\n");
  ASSERT_GE(rows.size(), 21u);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows.size());
  const std::size_t last = rows.size() - 7;
  for (const auto& [x, y] : {std::pair<std::size_t, std::size_t>{0, 0}, {last, 0}, {0, last}}) {
    EXPECT_EQ(rows[y].substr(x, 7), "1111111");
    EXPECT_EQ(rows[y + 1].substr(x, 7), "1000001");
    EXPECT_EQ(rows[y + 3].substr(x, 7), "1011101");
  }
  EXPECT_TRUE(qr_code(std::string(5000, 'x')).empty());
}

TEST(Tables, ColumnsOfOneLengthAndCsvByRfc4180) {
  Scratch scratch;
  const fs::path folder = finished_run(scratch.runs());
  std::map<std::string, std::string> texts;
  for (const char* file :
       {"steps.jsonl", "metrics.jsonl", "timings.jsonl", "checkpoints.jsonl", "experiment.toml", "data.json"})
    texts[file] = archive::read_file(folder / file);
  const Json tables = run_tables(texts);
  for (const auto& [name, table] : tables.items()) {
    std::set<std::size_t> lengths;
    for (const auto& [column, values] : table.items()) lengths.insert(values.size());
    EXPECT_EQ(lengths.size(), 1u) << name;
  }
  EXPECT_EQ(tables["steps"]["step"].size(), 8u);
  EXPECT_EQ(tables["steps"]["loss_bits"][0], "3f0003d1");
  EXPECT_EQ(static_cast<float>(tables["steps"]["loss"][0].get<double>()), std::bit_cast<float>(0x3f0003d1u));
  EXPECT_EQ(tables["settings"]["key"], Json::parse(R"(["name", "seed"])"));
  EXPECT_EQ(csv_text(Json{{"a", {"x", "with, comma", "a \"quote\"", nullptr}}, {"b", {1, 2.5, "two\nlines", "nan"}}}),
            "a,b\r\nx,1\r\n\"with, comma\",2.5\r\n\"a \"\"quote\"\"\",two\\nlines\r\n,nan\r\n");
  texts["steps.jsonl"].pop_back();
  EXPECT_NE(error_of([&] { (void)run_tables(texts); }).find("the last line is cut off"), std::string::npos);
}

}  // namespace
}  // namespace isobit::report
