//! `tollhouse dev`: saved changes are served, whatever happens meanwhile.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};

use super::{
    folders::{edit, packages, started},
    harness::Shell,
};
use crate::harness::{eventually, signal};

/// A running `tollhouse dev`, read line by line.
pub struct Dev {
    child: tokio::process::Child,
    lines: Lines<BufReader<tokio::process::ChildStdout>>,
    folder: PathBuf,
    said: Vec<String>,
}

impl Dev {
    pub fn start(shell: &Shell, folder: &Path, words: &[&str]) -> Self {
        let mut command = shell.command(&[&["dev", "--port", "0"], words].concat());
        let mut child = command.current_dir(folder).stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, folder: folder.to_owned(), said: vec![] }
    }

    /// Reads until a line contains this. Returns the line.
    pub async fn wait_for(&mut self, requested: &str) -> String {
        loop {
            let line = tokio::time::timeout(Duration::from_secs(30), self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("nothing says `{requested}`: {:#?}", self.said)).unwrap();
            let line = line.unwrap_or_else(|| panic!("it ended without `{requested}`: {:#?}", self.said));
            self.said.push(line.clone());
            if line.contains(requested) {
                return line;
            }
        }
    }

    /// Returns the lines so far.
    pub fn printed(&self) -> &[String] {
        &self.said
    }

    fn url(&self) -> String {
        let here: Value = serde_json::from_str(&fs::read_to_string(self.folder.join(".tollhouse/dev.json")).unwrap()).unwrap();
        here["url"].as_str().unwrap().to_owned()
    }

    /// Calls the tool as its owner.
    async fn call(&self, input: &Value) -> Value {
        self.call_of("shout", input).await
    }

    /// Calls another tool as its owner.
    pub async fn call_of(&self, slug: &str, input: &Value) -> Value {
        let token = fs::read_to_string(self.folder.join(".tollhouse/dev/admin-token")).unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{}/tools/{slug}", self.url())).header("x-admin-token", token.trim()).json(input);
        request.send().await.unwrap().json().await.unwrap()
    }

    pub async fn end(mut self, with: rustix::process::Signal) -> Option<i32> {
        signal(i32::try_from(self.child.id().unwrap()).unwrap(), with);
        tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await.expect("it does not end").unwrap().code()
    }
}

#[tokio::test]
async fn save_is_served_and_what_does_not_load_leaves_the_last_one_serving() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    let head = dev.wait_for("shout  http://127.0.0.1:").await;
    assert!(head.contains("/tools/shout  $0.01, play money   edit http://127.0.0.1:"), "{head}");
    dev.wait_for("cases 3/3").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "HI");
    let answer = dev.wait_for("free for the owner  rcpt_").await;
    assert!(answer.contains("  POST 200  ") && answer.contains(" ms  cpu "), "{answer}");
    dev.wait_for("info  shouting  {\"length\":2}").await;
    edit(&folder, "handler.ts", "toUpperCase", "toLowerCase");
    dev.wait_for("cases 2/3   ✗ \"shouts\": /text expected \"HI\", got \"hi\"").await;
    assert_eq!(dev.call(&json!({ "text": "Hi" })).await["text"], "hi");
    for broken in ["export default (", ""] {
        fs::write(folder.join("handler.ts"), broken).unwrap();
        dev.wait_for("keeps serving").await;
        assert_eq!(dev.call(&json!({ "text": "Hi" })).await["text"], "hi");
    }
    // Replace the file, as editors do.
    fs::write(folder.join(".handler.ts.swp"), "export default async (req: any) => ({ text: req.input.text + '?' });").unwrap();
    fs::rename(folder.join(".handler.ts.swp"), folder.join("handler.ts")).unwrap();
    dev.wait_for("published").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "hi?");
    fs::remove_file(folder.join("handler.ts")).unwrap();
    dev.wait_for("handler.ts  does not exist").await;
    fs::write(folder.join("handler.ts"), "x".repeat(9 << 20)).unwrap();
    dev.wait_for("no host accepts more than").await;
    // Back to a handler that works, before `tool.json` is broken: errors in the handler would be
    // shown first.
    fs::write(folder.join("handler.ts"), "export default async (req: any) => ({ text: req.input.text + '?' });").unwrap();
    edit(&folder, "tool.json", "\"title\"", "\"title");
    dev.wait_for("tool.json:").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "hi?");
    assert_eq!(dev.end(rustix::process::Signal::TERM).await, Some(0));
    assert!(!folder.join(".tollhouse/dev.json").exists());
}

#[tokio::test]
async fn types_are_reported_with_their_place_and_hold_nothing_up() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let mut dev = Dev::start(&shell, &folder, &["--price", "0"]);
    assert!(dev.wait_for("shout  http://").await.contains("/tools/shout  free   edit"));
    dev.wait_for("types ok").await;
    edit(&folder, "handler.ts", "const { text } = req.input;", "const { text } = req.input; req.input.txt;");
    dev.wait_for("handler.ts:2:41  Property 'txt' does not exist on type '{ text: string; }'. Did you mean 'text'?").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "HI");
    assert_eq!(dev.end(rustix::process::Signal::INT).await, Some(0));
}

#[tokio::test]
async fn second_dev_reports_the_first_and_a_killed_one_blocks_nothing() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("published").await;
    let second = shell.run_in(&folder, &["dev"]).await.is(1);
    assert!(second.stderr.contains("Another `tollhouse dev` already serves this folder: http://127.0.0.1:"), "{second:?}");
    assert_eq!(dev.end(rustix::process::Signal::KILL).await, None);
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("cases 3/3").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "HI");
    dev.end(rustix::process::Signal::TERM).await;
    // The data of the earlier run are not to blame for a port that is in use.
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let used = format!("error: Cannot listen on 127.0.0.1:{port}: …\nhint: name another port, or omit --port to use a free one");
    shell.run_in(&folder, &["dev", "--port", &port]).await.is(1).warned(&used);
    shell.run_in(&folder, &["dev", "--url", "http://127.0.0.1:1"]).await.is(2);
    shell.run(&["dev"]).await.is(2);
}

#[tokio::test]
async fn bundle_is_served_once_its_missing_import_exists() {
    let shell = Shell::new();
    shell.run(&["init", "shout"]).await.is(0);
    let folder = shell.home().join("shout");
    fs::remove_file(folder.join("cases.jsonc")).unwrap();
    let own = folder.join("node_modules");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::symlink(packages().join(".bin"), own.join(".bin")).unwrap();
    let import = |from: &str| {
        fs::write(folder.join("handler.ts"), format!("import text from \"{from}\";\nexport default () => ({{ text }});\n")).unwrap()
    };
    import("./lib/a.ts");
    fs::create_dir(folder.join("lib")).unwrap();
    fs::write(folder.join("lib/a.ts"), "export default ;\n").unwrap();
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("lib/a.ts:1:16  Unexpected \";\"").await;
    dev.wait_for("not serving yet").await;
    fs::write(folder.join("lib/a.ts"), "export default \"mended\";\n").unwrap();
    dev.wait_for("published").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "mended");

    // An import without an extension, in a folder that does not exist.
    import("./other/util");
    dev.wait_for("handler.ts:1:18  `./other/util` does not exist").await;
    fs::create_dir(folder.join("other")).unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    fs::write(folder.join("other/util.ts"), "export default \"made\";\n").unwrap();
    dev.wait_for("published").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "made");

    import("late");
    dev.wait_for("handler.ts:1:18  the package `late` is not installed: npm i late").await;
    fs::create_dir(own.join("late")).unwrap();
    fs::write(own.join("late/index.js"), "export default \"installed\";\n").unwrap();
    fs::write(own.join("late/package.json"), "{\"name\": \"late\", \"version\": \"1.0.0\", \"main\": \"index.js\"}").unwrap();
    fs::write(own.join(".package-lock.json"), "{}").unwrap();
    dev.wait_for("published").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "installed");

    // Each error is shown once, however often the build was tried.
    for reported in ["Unexpected", "does not exist", "is not installed"] {
        assert_eq!(dev.printed().iter().filter(|line| line.contains(reported)).count(), 1, "{reported}: {:#?}", dev.printed());
    }
    dev.end(rustix::process::Signal::TERM).await;
}

#[tokio::test]
async fn secret_that_is_not_taken_is_reported_with_its_line_and_ends_nothing() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let env = |text: &str| fs::write(folder.join(".env.dev"), text).unwrap();
    env("GOOD=1\nAPI_KEY=\n");
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for(".env.dev:2  the secret `API_KEY`: A value must have ").await;
    dev.wait_for("cases 3/3").await;
    assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "HI");
    env("apiKey=x\nGOOD=1\n");
    dev.wait_for(".env.dev:1  the secret `apiKey`: A name must ").await;
    env("GOOD=1\nNEW");
    dev.wait_for(".env.dev  line 2 of ").await;
    dev.wait_for("keeps serving").await;
    env("");
    dev.wait_for("cases 3/3").await;
    assert_eq!(dev.end(rustix::process::Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn secrets_that_are_changed_are_those_of_the_next_call() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    fs::remove_file(folder.join("cases.jsonc")).unwrap();
    fs::write(folder.join("handler.ts"), "export default async (req: any, ctx: any) => ({ text: String(ctx.env.WORD) });").unwrap();
    fs::create_dir(folder.join("env")).unwrap();
    for (file, flags) in [(".env.dev", &["--no-types"][..]), ("env/words", &["--no-types", "--env", "env/words"])] {
        let env = |text: &str| fs::write(folder.join(file), text).unwrap();
        env("WORD=one\nOTHER=x\n");
        let mut dev = Dev::start(&shell, &folder, flags);
        for (text, word) in
            [("WORD=two\nOTHER=x\n", "one"), ("OTHER=x\n", "two"), ("# WORD=two\n", "undefined"), ("WORD=three\n", "undefined")]
        {
            dev.wait_for("published").await;
            assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], word, "{file}");
            env(text);
        }
        dev.wait_for("published").await;
        assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "three", "{file}");
        dev.end(rustix::process::Signal::TERM).await;
        fs::remove_file(folder.join(file)).unwrap();
    }
}

/// Waits until the tool answers with this text.
async fn serves(dev: &Dev, text: &str) {
    let what = format!("`{text}` is served");
    eventually(&what, Duration::from_secs(20), async || (dev.call(&json!({ "text": "hi" })).await["text"] == text).then_some(())).await;
}

#[tokio::test]
async fn undo_during_a_publish_is_served() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    fs::remove_file(folder.join("cases.jsonc")).unwrap();
    // Setting these secrets takes a while, so the publication is slow.
    let secrets: Vec<_> = (0..30).map(|number| format!("WORD_{number}=x\n")).collect();
    fs::write(folder.join(".env.dev"), secrets.concat()).unwrap();
    let save = |text: &str| fs::write(folder.join("handler.ts"), format!("export default async () => ({{ text: \"{text}\" }});")).unwrap();
    save("first");
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("published").await;
    for millis in [80, 110, 150, 200, 260] {
        save("other");
        tokio::time::sleep(Duration::from_millis(millis)).await;
        save("first");
        // Wait until the earlier publication has been canceled.
        tokio::time::sleep(Duration::from_millis(500)).await;
        serves(&dev, "first").await;
    }
    dev.end(rustix::process::Signal::TERM).await;
}

#[tokio::test]
async fn reader_who_has_enough_ends_it() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("cases 3/3").await;
    let Dev { mut child, lines, .. } = dev;
    // Nothing else happens. It has nothing to write, so it must notice the closed output in another
    // way.
    drop(lines);
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait()).await.expect("it goes on for nobody").unwrap();
    assert_eq!(ended.code(), Some(0));
    assert!(!folder.join(".tollhouse/dev.json").exists());
}

#[tokio::test]
async fn call_in_a_folder_trusts_no_foreign_note_and_sends_no_credential() {
    let shell = Shell::new().env("TOLLHOUSE_CREDIT", "dc_of_another_host");
    shell.file("config/tollhouse/config.toml", "[profiles.prod]\nurl = \"http://127.0.0.1:9\"\n");
    let folder = started(&shell, "shout").await;
    let call = ["call", "shout", "--json", "{\"text\":\"hi\"}"];
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    fs::create_dir_all(folder.join(".tollhouse")).unwrap();
    let note = json!({ "url": format!("http://{}", other.local_addr().unwrap()), "pid": 1 });
    fs::write(folder.join(".tollhouse/dev.json"), note.to_string()).unwrap();
    shell.run_in(&folder, &call).await.is(5);
    assert!(tokio::time::timeout(Duration::from_millis(100), other.accept()).await.is_err(), "it was asked");
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("published").await;
    shell.run_in(&folder, &call).await.is(0).warned("(dev, 127.0.0.1:…)\npaid $0.01 (simulated)  …");
    shell.run_in(&folder, &["calls"]).await.is(0).warned("(dev, 127.0.0.1:…)\n…");
    shell.run_in(&folder, &["logs", "--json"]).await.is(0).warned("");
    let lacks = "(dev, 127.0.0.1:…)\nerror: No developer credit or admin token for http://127.0.0.1:…\nhint: …";
    shell.run_in(&folder, &[&call[..], &["--credit"]].concat()).await.is(3).warned(lacks);
    dev.end(rustix::process::Signal::TERM).await;
}

#[tokio::test]
async fn save_during_a_publish_takes_its_place() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("cases 3/3").await;
    for round in 0..40 {
        fs::write(folder.join("handler.ts"), format!("export default async () => ({{ text: \"{round}\" }});")).unwrap();
        tokio::time::sleep(Duration::from_millis(35 + round % 5 * 25)).await;
    }
    serves(&dev, "39").await;
    // It stays: no canceled publication comes after it.
    for _ in 0..20 {
        assert_eq!(dev.call(&json!({ "text": "hi" })).await["text"], "39");
    }
    dev.end(rustix::process::Signal::TERM).await;
}

#[tokio::test]
async fn saved_file_is_served_soon() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    fs::remove_file(folder.join("cases.jsonc")).unwrap();
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("published").await;
    let mut elapsed = vec![];
    for round in 0..15 {
        let started_at = Instant::now();
        fs::write(folder.join("handler.ts"), format!("export default async () => ({{ text: \"{round}\" }});")).unwrap();
        serves(&dev, &round.to_string()).await;
        elapsed.push(started_at.elapsed());
    }
    elapsed.sort();
    println!("save to served: p50 {} ms, slowest {} ms", elapsed[7].as_millis(), elapsed[14].as_millis());
    // Twice the limit, because the machine does other work and the host is not optimized.
    assert!(elapsed[7] < Duration::from_millis(300), "{elapsed:?}");
    dev.end(rustix::process::Signal::TERM).await;
}
