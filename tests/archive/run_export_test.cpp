// Exported runs: the same bytes, read back as they were; whatever is done to the file is found or harmless.
#include "archive/run_export.h"

#include <cerrno>

#include "archive/output_file.h"
#include "archive/tar_file.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

const SecretScan kNothingSecret({}, {}, "");

// A finished small run, exported to <scratch>/run.tar; its content.
std::string exported(const Scratch& scratch, bool with_weights = false) {
  const fs::path folder = finished_run(scratch.runs());
  const ExportPlan plan = plan_export(RunRecord::open(folder), {with_weights, false}, kNothingSecret);
  write_export(plan, scratch.path() / "run.tar");
  return read_file(scratch.path() / "run.tar");
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder)] = read_file(entry.path());
  }
  return files;
}

// One entry of a tar archive, with a type and a link of the caller's choice.
std::string raw_entry(const std::string& name, const std::string& content, char type = '0',
                      const std::string& link = "", std::uint64_t size = ~0ull) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  char number[13];
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  std::snprintf(number, sizeof number, "%011llo",
                static_cast<unsigned long long>(size == ~0ull ? content.size() : size));
  put(124, number);
  put(136, "00000000000");
  put(148, "        ");
  header[156] = type;
  put(157, link);
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(number, sizeof number, "%06o", sum);
  put(148, std::string(number) + '\0');
  std::string body = content;
  body.resize((content.size() + 511) / 512 * 512, '\0');
  return header + body;
}

std::string error_of_import(const Scratch& scratch, const std::string& content) {
  const fs::path file = scratch.path() / "given.tar", runs = scratch.path() / "imported";
  overwrite(file, content);
  const std::string error = error_of([&] { static_cast<void>(import_run(file, runs)); });
  if (!error.empty()) {
    EXPECT_TRUE(fs::is_empty(runs)) << "something was left by: " << error;
  }
  return error;
}

TEST(Export, IsTheRecordAndAlwaysTheSameBytes) {
  const Scratch scratch;
  const std::string content = exported(scratch, true);
  const fs::path original = find_run(scratch.runs(), "last");
  const fs::path back = import_run(scratch.path() / "run.tar", scratch.path() / "imported");
  const RunRecord record = RunRecord::open(back);
  EXPECT_EQ(record.weights(), kWeights);
  EXPECT_EQ(record.checkpoints().size(), 2u);
  auto files = files_of(back);
  for (const auto& [name, text] : files_of(original)) {
    if (name != "manifest.json") {
      EXPECT_EQ(files[name], text) << name;
    }
  }
  write_export(plan_export(record, {true, false}, kNothingSecret), scratch.path() / "again.tar");
  EXPECT_TRUE(read_file(scratch.path() / "again.tar") == content);
  EXPECT_NE(error_of([&] {
              static_cast<void>(import_run(scratch.path() / "run.tar", scratch.path() / "imported"));
            }).find("exists already"),
            std::string::npos);
}

TEST(Export, WithoutWeightsTheRecordIsStillSound) {
  const Scratch scratch;
  exported(scratch);
  const RunRecord record = RunRecord::open(import_run(scratch.path() / "run.tar", scratch.path() / "imported"));
  EXPECT_TRUE(record.checkpoints().empty());
  EXPECT_EQ(record.steps().size(), 8u);
}

TEST(Export, EveryFlippedByteIsFoundOrHarmless) {
  const Scratch scratch;
  const std::string content = exported(scratch);
  const fs::path runs = scratch.path() / "imported";
  const fs::path back = import_run(scratch.path() / "run.tar", runs);
  const auto original = files_of(back);
  fs::remove_all(back);
  std::size_t found = 0;
  for (std::size_t at = 0; at < content.size(); at += 3) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    if (!error_of_import(scratch, damaged).empty()) {
      ++found;
      continue;
    }
    // Padding, and what is not used of a header that agrees with its sum.
    for (const auto& entry : fs::directory_iterator(runs)) {
      EXPECT_EQ(files_of(entry.path()), original) << "byte " << at;
      fs::remove_all(entry.path());
    }
  }
  EXPECT_GT(found, content.size() / 3 / 3);
}

TEST(Export, EveryTruncationIsFound) {
  const Scratch scratch;
  const std::string content = exported(scratch);
  const std::size_t end = content.find_last_not_of('\0');  // then zeros only
  for (std::size_t size = 0; size <= end; size += size % 512 == 0 ? 1 : 511 - (size - 1) % 512) {
    EXPECT_NE(error_of_import(scratch, content.substr(0, size)), "") << size;
  }
}

TEST(Export, RefusesWhatIsNoPlainFileOfTheRun) {
  const Scratch scratch;
  const std::string content = exported(scratch);
  const std::string id = find_run(scratch.runs(), "last").filename();
  const std::string good = raw_entry(id + "/notes.txt", "text");
  const struct {
    std::string entry, part;
  } cases[] = {
      {raw_entry("../x", "text"), "'../x' cannot be a file of a run"},
      {raw_entry(id + "/../../x", "text"), "cannot be a file of a run"},
      {raw_entry("/tmp/isobit-export-test", "text"), "cannot be a file of a run"},
      {raw_entry("other/x", "text"), "cannot be a file of a run"},
      {raw_entry(id + "/.hidden", "text"), "cannot be a file of a run"},
      {raw_entry(id + "/a/b", "text"), "cannot be a file of a run"},
      {raw_entry(id + "/\033[1m", "text"), "?[1m' cannot be a file of a run"},
      {raw_entry(id + "/link", "", '2', "/etc/passwd"), "is not a regular file"},
      {raw_entry(id + "/hard", "", '1', id + "/manifest.json"), "is not a regular file"},
      {raw_entry(id + "/folder/", "", '5'), "is not a regular file"},
      {raw_entry(id + "/device", "", '3'), "is not a regular file"},
      {raw_entry(id + "/pipe", "", '6'), "is not a regular file"},
      {good + good, "it holds '"},
      {raw_entry(id + "/huge", "", '0', "", 1ull << 32), "claims to be larger than the archive"},
      // A map of holes that is none: libarchive ends without a word.
      {good + raw_entry("PaxHeader", "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n", 'x') +
           raw_entry(id + "/sparse", "K\n0\n3\n"),
       "damaged: its headers contradict each other"},
      {good, "added after the run was finished"},
  };
  for (const auto& [entry, part] : cases) {
    const std::string error = error_of_import(scratch, entry + content);
    EXPECT_NE(error.find(part), std::string::npos) << part << "\n" << error;
  }
  EXPECT_FALSE(fs::exists(scratch.path() / "x"));
  EXPECT_NE(error_of_import(scratch, "text").find("not an exported run"), std::string::npos);
  EXPECT_NE(error_of_import(scratch, "").find("not an exported run"), std::string::npos);
  EXPECT_NE(error_of_import(scratch, std::string(10240, '\0')).find("not an exported run"), std::string::npos);
  EXPECT_EQ(error_of_import(scratch, content), "");
}

TEST(Export, AFullDiskLeavesNothing) {
  const Scratch scratch;
  const fs::path folder = finished_run(scratch.runs());
  const ExportPlan plan = plan_export(RunRecord::open(folder), {}, kNothingSecret);
  const fs::path out = scratch.path() / "out" / "run.tar";
  fs::create_directories(out.parent_path());
  for (const std::uint64_t room : {0, 1, 512, 10239, 10240, 12000}) {
    inject_write_fault(ENOSPC, room);
    const std::string error = error_of([&] { write_export(plan, out); });
    inject_write_fault(0, 0);
    EXPECT_NE(error.find("run.tar: cannot be written: No space left on device (free space there"), std::string::npos)
        << room << error;
    EXPECT_TRUE(fs::is_empty(out.parent_path()));
  }
  write_export(plan, out);
  inject_write_fault(ENOSPC, 3000);
  const std::string error = error_of([&] { static_cast<void>(import_run(out, scratch.path() / "imported")); });
  inject_write_fault(0, 0);
  EXPECT_NE(error.find("No space left on device"), std::string::npos) << error;
  EXPECT_TRUE(fs::is_empty(scratch.path() / "imported"));
}

TEST(Export, NothingIsReplacedOrFollowed) {
  const Scratch scratch;
  overwrite(scratch.path() / "there", "text");
  fs::create_symlink(scratch.path() / "elsewhere", scratch.path() / "link");
  for (const char* name : {"there", "link"}) {
    EXPECT_NE(error_of([&] { OutputFile file(scratch.path() / name); }).find("exists already"), std::string::npos);
  }
  OutputFile file(scratch.path() / "late");
  overwrite(scratch.path() / "late", "text");
  EXPECT_NE(error_of([&] { file.commit(); }).find("exists already"), std::string::npos);
  EXPECT_EQ(read_file(scratch.path() / "late"), "text");
}

std::vector<std::string> whats(const SecretScan& scan, const std::string& text) {
  std::vector<std::string> found;
  for (const Finding& finding : scan.find("f", text)) found.push_back(finding.place + " " + finding.what);
  return found;
}

TEST(SecretScan, FindsWhatLooksLikeASecret) {
  const std::string hex(40, 'a');
  const std::pair<std::string, std::string> cases[] = {
      {"x = 1\n-----BEGIN RSA PRIVATE KEY-----", "f:2 the beginning of a private key"},
      {"id AKIAABCDEFGHIJKLMNOP", "f:1 an AWS access key"},
      {"ghp_" + hex, "f:1 a GitHub token"},
      {"hf_" + hex, "f:1 a Hugging Face token"},
      {"git clone https://me:pass@host/x", "f:1 user and password in a URL"},
      {"WANDB_API_KEY = 'abcdef0123456789'", "f:1 a value of WANDB_API_KEY"},
      {"os.environ[\"HF_TOKEN\"] = \"abcdefgh\"", "f:1 a value of HF_TOKEN"},
      {"{\"db_password\": \"correct-horse\"}", "f:1 a value of db_password"},
      {"client_secret: str = 'abcdefgh'", "f:1 a value of client_secret"},
      {"+export AWS_SECRET_KEY=abc12345678", "f:1 a value of AWS_SECRET_KEY"},
      {"train.py --api-key abc12345678 --lr 1", "f:1 a value of --api-key"},
      {"password: hunter2hunter2", "f:1 a value of password"},
      {"passwd = 'pa$$ w0rd, or so'", "f:1 a value of passwd"},
      {"wandb.login(key=\"" + hex + "\")", "f:1 the key of a login"},
      {"comet.login(project='x', api_key='abcdefgh')", "f:1 the key of a login"},
      {"wandb.login('0123456789abcdef')", "f:1 a value given to a login"},
      {"ftp.login(\"me\", \"pass w0rd!\")", "f:1 the password of a login"},
      {"headers = {'Authorization': 'Bearer abcdefgh'}", "f:1 an authorization header"},
      {"curl -H \"Authorization: Basic bWU6cGFzcw==\"", "f:1 an authorization header"},
      {"x = 'Bearer a1b2c3d4e5'", "f:1 a bearer token"},
      {"pwd=hunter22", "f:1 a value of pwd"},
      {"DB_PWD = \"correct-horse\"", "f:1 a value of DB_PWD"},
      {"Server=db;Uid=me;Pwd=s3cret!;Port=1", "f:1 a password in a connection's text"},
      {"xoxp-123456789012-abcdef", "f:1 a Slack token"},
      {"xapp-1-A0123456789-abc", "f:1 a Slack token"},
      {"https://hooks.slack.com/services/T00000000/B00000000/abcdefgh", "f:1 a Slack webhook"},
      {"sk_live_" + hex, "f:1 a Stripe key"},
      {"rk_live_" + hex, "f:1 a Stripe key"},
      {"ASIAABCDEFGHIJKLMNOP", "f:1 an AWS access key"},
      {"AccountName=x;AccountKey=" + hex + "==;", "f:1 an Azure key"},
      {"https://x.blob.core.windows.net/c?sv=1&sig=" + hex + "%3D", "f:1 a signature in a URL"},
      {"AIza" + std::string(35, 'b'), "f:1 a Google API key"},
      {"\"private_key_id\": \"" + hex + "\"", "f:1 a value of private_key_id"},
      {"https://me:p@ss@host/x", "f:1 user and password in a URL"},
      {"mysql://me:a1@b2@host", "f:1 user and password in a URL"},
  };
  for (const auto& [text, what] : cases) EXPECT_EQ(whats(kNothingSecret, text), std::vector<std::string>{what}) << text;
}

TEST(SecretScan, LetsProgramsPass) {
  for (const char* text : {"tokenizer = 'bert-base-uncased'",
                           "pad_token = '<pad-pad>'",
                           "num_tokens = 128",
                           "for token in tokens:",
                           "key = 'loss_value'",
                           "sorted(x, key=lambda pair: pair[1])",
                           "token: torch.Tensor",
                           "password = getpass.getpass()",
                           "api_key = os.environ['API_KEY']",
                           "tokens = tokenizer.encode(text)",
                           "https://host:8080/x@y",
                           "pwd = os.getcwd()",
                           "PWD=/home/me/project22",
                           "cwd = pwd",
                           "login(user, key)",
                           "headers['Authorization'] = f'Bearer {token}'",
                           "Bearer authentication is used",
                           "login('username')",
                           "logger.login_count += 1",
                           "password = getpass;",
                           "AccountKey=",
                           "sk_live_",
                           "sign = x if key else 2",
                           "token = '<|endoftext|>'",
                           "sorted(rows, key=lambda r: r['login1'])",
                           "def secret(self): return 12345678",
                           "token = next_token(stream1)"}) {
    EXPECT_EQ(whats(kNothingSecret, text), std::vector<std::string>{}) << text;
  }
}

TEST(SecretScan, VariablesOfTheEnvironment) {
  const SecretScan scan(
      {}, {{"MY_TOKEN", "verysecret"}, {"EDITOR", "verysecure"}, {"OTHER_KEY", "short"}, {"KEY", "/usr/share/key"}},
      "");
  EXPECT_EQ(whats(scan, "verysecret"), std::vector<std::string>{"f:1 the value of the environment variable MY_TOKEN"});
  EXPECT_TRUE(whats(scan, "verysecure short /usr/share/key").empty());
}

TEST(SecretScan, AllowsRedactsAndShortensHome) {
  const SecretScan scan({"example"}, {}, "/srv/people/bob/");
  EXPECT_TRUE(whats(scan, "api_key = 'example-key-1'").empty());
  const std::string text = "a\napi_key = 'abcdefgh1' # and 'https://u:pw@h'\n";
  EXPECT_EQ(scan.redacted(text), "a\napi_key = '(left out)' # and 'https://(left out)@h'\n");
  EXPECT_TRUE(whats(scan, scan.redacted(text)).empty());
  EXPECT_EQ(scan.redacted("no newline"), "no newline");
  EXPECT_EQ(
      scan.without_home("/srv/people/bob/x /srv/people/bobby /home/al:/home/al \"/Users/al\" x/home/al /data/home/al/"),
      "~/x /srv/people/bobby ~:~ \"~\" x/home/al /data/home/al/");
  EXPECT_TRUE(scan.is_secret_file("a/.env"));
  EXPECT_TRUE(scan.is_secret_file("id_rsa"));
  EXPECT_FALSE(scan.is_secret_file("environment.py"));
  EXPECT_FALSE(scan.is_secret_file("example.pem"));
}

// A key of this kind: its first line, its body, its last line.
std::string key(const std::string& first, const std::string& last, const std::string& separator = "\n") {
  std::string text = first + separator;
  for (int line = 0; line < 4; ++line) text += "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + separator;
  return text + "aB3dE6gH9jK2=" + separator + last;
}

TEST(SecretScan, PrivateKeysAreFoundWholeWhateverIsAllowed) {
  const SecretScan scan({"KEY", "MII", "-", "P", " "}, {}, "");  // everything
  const std::string pem = key("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
  const std::string cases[] = {
      pem,
      key("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"),
      key("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,01\n",
          "-----END EC PRIVATE KEY-----"),
      key("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"),
      key("-----BEGIN ENCRYPTED PRIVATE KEY-----", "-----END ENCRYPTED PRIVATE KEY-----"),
      key("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\n", "-----END PGP PRIVATE KEY BLOCK-----"),
      key("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", "---- END SSH2 ENCRYPTED PRIVATE KEY ----"),
      key("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: x\nPrivate-Lines: 5", "Private-MAC: 00ff"),
      key("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\\n"),  // as JSON and programs write it
      key("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", ""),
      key("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\r\n"),
      key("    '-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----')", "\\n'\n    '"),
      key("+-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\n+"),  // in a patch
      key("-----BEGIN PRIVATE KEY-----", ""),                                   // cut off
      "AGE-SECRET-KEY-1" + std::string(58, 'Q'),
      "b3BlbnNzaC1rZXktdjEA" + std::string(60, 'A'),
      "client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo" + std::string(60, 'A'),
      "client-key-data: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg" + std::string(60, 'A'),
      "client-key-data: LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZLS0tLS0K" + std::string(60, 'A'),
  };
  for (const std::string& text : cases) {
    const std::string whole = "before = 1\n" + text + "\nafter = 2\n";
    const std::vector<Finding> found = scan.find("f", whole);
    ASSERT_EQ(found.size(), 1u) << text;
    EXPECT_EQ(found[0].place + " " + found[0].what, "f:2 a private key") << text;
    EXPECT_TRUE(found[0].always);
    const std::string redacted = scan.redacted(whole);
    EXPECT_TRUE(redacted.starts_with("before = 1\n")) << redacted;
    EXPECT_TRUE(redacted.ends_with("\nafter = 2\n")) << redacted;
    EXPECT_EQ(redacted.find("MII"), std::string::npos) << redacted;
    EXPECT_EQ(redacted.find("aB3dE6"), std::string::npos) << redacted;
    EXPECT_EQ(redacted.find("AAAA"), std::string::npos) << redacted;
    EXPECT_EQ(std::count(redacted.begin(), redacted.end(), '\n'), std::count(whole.begin(), whole.end(), '\n'));
    EXPECT_TRUE(scan.find("f", redacted).empty()) << redacted;
  }
  // A patch stays one.
  EXPECT_EQ(scan.redacted(" a\n+-----BEGIN PRIVATE KEY-----\n+aB3dE6gH9jK2\n+-----END PRIVATE KEY-----\n b\n"),
            " a\n+(left out)\n+(left out)\n+(left out)\n b\n");
  // A program that reads keys has none.
  const std::string program =
      "if text.startswith('-----BEGIN PRIVATE KEY-----'):\n    return parse_private_key(text)\nraise "
      "NotImplementedError\n";
  EXPECT_TRUE(whats(scan, program).empty());
  EXPECT_EQ(whats(kNothingSecret, program), std::vector<std::string>{"f:1 the beginning of a private key"});
  EXPECT_TRUE(whats(kNothingSecret, "-----BEGIN CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----").empty());
}

TEST(SecretScan, KeysAfterOneAnother) {
  const std::string begin = "-----BEGIN PRIVATE KEY-----\n", body = "aB3dE6gH9jK2\n",
                    end = "-----END PRIVATE KEY-----\n";
  const std::vector<std::string> one = {"f:1 a private key"};
  // A key reaches from its first line to what ends it, whatever first lines stand between.
  EXPECT_EQ(whats(kNothingSecret, begin + "\n" + begin + body + end), one);
  EXPECT_EQ(kNothingSecret.redacted(begin + body + begin + body + "x\n"),
            "(left out)\n(left out)\n(left out)\n(left out)\nx\n");
  // A program that puts a key together: its body far from the first line, a second first line before the end.
  std::string program = "HEAD = \"" + begin.substr(0, begin.size() - 1) + "\"\n";
  for (int i = 0; i < 11; ++i) program += "x = " + std::to_string(i) + "\n";
  program += "BODY = \"\"\"\n" + body + body + "\"\"\"\nTEXT = \"" + begin.substr(0, begin.size() - 1) +
             "\" + BODY + \"" + end.substr(0, end.size() - 1) + "\"\n";
  EXPECT_EQ(whats(SecretScan({"P", "x", "B", "T"}, {}, ""), program), one);
  EXPECT_EQ(kNothingSecret.redacted(program).find("aB3d"), std::string::npos);
  // A body in its first line, behind a first line of nothing.
  const std::string same = begin + begin.substr(0, begin.size() - 1) + body + end;
  EXPECT_EQ(kNothingSecret.redacted(same).find("aB3d"), std::string::npos);
  // A first line whose end is too far away, and one behind it whose end is near.
  const std::string far = begin + body + std::string(19'990, ' ') + "\n" + begin + body + "\n" + end + "after\n";
  EXPECT_EQ(kNothingSecret.redacted(far).find("aB3d"), std::string::npos);
  EXPECT_EQ(kNothingSecret.redacted(far).find("END"), std::string::npos);
  EXPECT_NE(kNothingSecret.redacted(far).find("after"), std::string::npos);
  // A key that two patterns know is one.
  EXPECT_EQ(whats(kNothingSecret, begin + "b3BlbnNzaC1rZXktdjEA" + std::string(60, 'A') + "\n" + body + end), one);
  // Many first lines, with a key behind them, and many keys: in time that grows as the text does.
  std::string firsts, keys;
  for (int i = 0; i < 20'000; ++i) firsts += begin + "\n", keys += begin + body;
  EXPECT_EQ(SecretScan({begin.substr(0, 20)}, {}, "").find("f", firsts + body).size(), 1u);
  EXPECT_EQ(kNothingSecret.redacted(keys + end).find("aB3d"), std::string::npos);
  EXPECT_EQ(kNothingSecret.redacted(keys).find("aB3d"), std::string::npos);
}

TEST(SecretScan, FilesOfCredentials) {
  for (const char* path : {".env",
                           "a/.env.local",
                           "prod.env",
                           ".netrc",
                           "_netrc",
                           ".pgpass",
                           ".npmrc",
                           "x/.pypirc",
                           ".aws/credentials",
                           "home/.aws/config",
                           ".docker/config.json",
                           ".kube/config",
                           "kubeconfig",
                           "prod.kubeconfig",
                           "kaggle.json",
                           ".git-credentials",
                           "client_secret.json",
                           "secrets.yaml",
                           "service-account-prod.json",
                           "credentials.json",
                           ".ssh/id_work",
                           "\xc3\xbc/.env"}) {
    EXPECT_TRUE(kNothingSecret.is_secret_file(path)) << path;
    EXPECT_FALSE(kNothingSecret.is_key_file(path)) << path;
  }
  for (const char* path :
       {"id_rsa", "a/id_ed25519", "id_ecdsa_sk", "server.pem", "a/TLS.KEY", "x.p12", "x.ppk", "x.jks"}) {
    EXPECT_TRUE(kNothingSecret.is_secret_file(path)) << path;
    EXPECT_TRUE(SecretScan({path}, {}, "").is_key_file(path)) << path;
  }
  for (const char* path : {"environment.py", "id_rsa.pub", "secret_scan.cpp", "config.json", "keys.py", "secrets.py",
                           "docker/config.json", "tokenizer.json", "credentials.py", "my.envelope"})
    EXPECT_FALSE(kNothingSecret.is_secret_file(path)) << path;
}

TEST(SecretScan, LongLinesAreNoTrouble) {
  EXPECT_TRUE(whats(kNothingSecret, std::string(4 << 20, 'a')).empty());
  EXPECT_EQ(whats(kNothingSecret, std::string(1 << 20, ' ') + "hf_" + std::string(40, 'b')).size(), 1u);
}

TEST(PatchSummary, ReadsNamesAsGitWritesThem) {
  const std::pair<const char*, const char*> cases[] = {
      {"a/a.py b/a.py", "a.py"},
      {"\"a/\\303\\274.env\" \"b/\\303\\274.env\"", "\xc3\xbc.env"},
      {"a/plain \"b/q\\\"uote\\t\\\\.pem\"", "q\"uote\t\\.pem"},
      {"a/x b/.env b/x b/.env", "x b/.env"},
      {".env .env", ".env"},
      {"i/.env w/.env", ".env"},
      {"a/old b/new", "new"},
      {"\"", "\""},
      {"\"\\", "\"\\"},
      {"\"\\3\"", "3"},
  };
  for (const auto& [header, path] : cases) {
    const auto files = summarize_patch(std::string("diff --git ") + header + "\n");
    ASSERT_EQ(files.size(), 1u) << header;
    EXPECT_EQ(files[0].path, path) << header;
  }
}

TEST(PatchSummary, CountsLines) {
  const auto files = summarize_patch(
      "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n x\n-y\n--- not a header\n+z\n"
      "diff --git a/pic b/pic\nGIT binary patch\nliteral 3\nzabc\n");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "a.py");
  EXPECT_EQ(files[0].added, 1);
  EXPECT_EQ(files[0].removed, 2);
  EXPECT_FALSE(files[0].binary);
  EXPECT_EQ(files[1].path, "pic");
  EXPECT_TRUE(files[1].binary);
  EXPECT_EQ(files[1].first_line, 9);
  EXPECT_TRUE(summarize_patch("# left out: 17 bytes\n").empty());
}

}  // namespace
}  // namespace isobit::archive
