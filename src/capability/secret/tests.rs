mod held;
mod hosts;
mod placeholders;

use std::os::unix::fs::PermissionsExt as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::{
    KeyRange, Space, Value as _,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
};

use super::*;

const VALUE: &str = "a value that nobody else has";

struct Host {
    store: Arc<FaultyStore<MemoryStore>>,
    folder: tempfile::TempDir,
    secrets: Secrets,
}

impl Host {
    async fn new() -> Self {
        let (store, folder) = (Arc::new(FaultyStore::new(MemoryStore::new())), tempfile::tempdir().unwrap());
        let secrets = open(&store, ring(&folder)).await;
        Self { store, folder, secrets }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("master-key")
    }

    /// Restarts as after a crash, with only what is on disk.
    async fn restart(&mut self) {
        self.store.heal();
        self.secrets = open(&self.store, ring(&self.folder)).await;
    }

    fn keys_on_disk(&self) -> usize {
        std::fs::read_to_string(self.file()).unwrap().lines().count()
    }
}

fn ring(folder: &tempfile::TempDir) -> Keyring {
    Keyring::open(None, None, &folder.path().join("master-key")).unwrap()
}

async fn open(store: &Arc<FaultyStore<MemoryStore>>, ring: Keyring) -> Secrets {
    let store: Arc<dyn Store> = Arc::clone(store) as _;
    let events = Arc::new(Events::new(Arc::clone(&store), Clock::default(), tollhouse_event::EventSettings::default()));
    Secrets::open(store, Clock::default(), events, ring, 1 << 20).await.unwrap()
}

fn endpoint(owner: Owner) -> SecretOwner {
    SecretOwner { id: EndpointId::generate(), owner, slug: "tool".parse().unwrap(), names: 32, value_bytes: 4_096 }
}

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

async fn value_of(secrets: &Secrets, endpoint: &SecretOwner, name: &str) -> Option<String> {
    let all = secrets.for_call(&endpoint.id, &endpoint.owner).await.unwrap();
    all.into_iter().find(|secret| secret.name == name).map(|secret| secret.value.to_string())
}

fn builder() -> Owner {
    Owner::Builder(tollhouse_base::id::BuilderId::generate())
}

#[tokio::test]
async fn a_secret_is_set_replaced_listed_and_removed_with_its_events() {
    let mut host = Host::new().await;
    let tool = endpoint(builder());
    let first = host.secrets.set(&tool, name("API_KEY"), VALUE, Visibility::Env).await.unwrap();
    let second = host.secrets.set(&tool, name("API_KEY"), "another", Visibility::Auth).await.unwrap();
    assert_eq!((second.created_at, second.visibility), (first.created_at, Visibility::Auth));
    assert_eq!(host.secrets.list(&tool.id).await.unwrap(), [second]);
    assert_eq!(value_of(&host.secrets, &tool, "API_KEY").await.as_deref(), Some("another"));
    host.restart().await;
    assert_eq!(value_of(&host.secrets, &tool, "API_KEY").await.as_deref(), Some("another"));
    host.secrets.remove(&tool, &name("API_KEY")).await.unwrap();
    assert!(matches!(host.secrets.remove(&tool, &name("API_KEY")).await, Err(SecretError::Unknown(_))));
    assert!(host.secrets.for_call(&tool.id, &tool.owner).await.unwrap().is_empty());
    let events = host.store.scan(Space::Events, KeyRange::all(), 10, Direction::Forward).await.unwrap();
    let texts: Vec<_> = events.iter().map(|(_, event)| String::from_utf8_lossy(&event.clone()).into_owned()).collect();
    let kinds: Vec<_> = texts.iter().map(|text| text.contains("secret.set")).collect();
    assert_eq!(kinds, [true, true, false]);
    assert!(texts.iter().all(|text| text.contains("API_KEY") && !text.contains("another")), "{texts:?}");
}

#[tokio::test]
async fn a_change_that_is_not_stored_leaves_neither_secret_nor_event() {
    for fault in [Fault::Before, Fault::Lost] {
        let host = Host::new().await;
        let tool = endpoint(builder());
        host.store.fail_nth(1, fault);
        assert!(host.secrets.set(&tool, name("KEY"), VALUE, Visibility::Env).await.is_err());
        assert_eq!(host.secrets.list(&tool.id).await.unwrap(), []);
        assert!(host.store.scan(Space::Events, KeyRange::all(), 10, Direction::Forward).await.unwrap().is_empty());
    }
    // The commit was not confirmed but happened, so it counts.
    let host = Host::new().await;
    let tool = endpoint(builder());
    host.store.fail_nth(1, Fault::After);
    assert!(host.secrets.set(&tool, name("KEY"), VALUE, Visibility::Env).await.is_err());
    assert_eq!(value_of(&host.secrets, &tool, "KEY").await.as_deref(), Some(VALUE));
}

#[tokio::test]
async fn names_values_and_their_number_are_bounded() {
    let host = Host::new().await;
    let tool = endpoint(builder());
    for bad in ["", "key", "_KEY", "1KEY", "KEY-1", "KEY ", "KÉY", "K|Y", &"K".repeat(65)] {
        assert!(bad.parse::<SecretName>().is_err(), "{bad}");
    }
    assert!("K".repeat(64).parse::<SecretName>().is_ok());
    let long = "v".repeat(4_097);
    for bad in ["", long.as_str()] {
        let refused = host.secrets.set(&tool, name("KEY"), bad, Visibility::Env).await.unwrap_err();
        assert!(matches!(refused, SecretError::Field { pointer: "/value", .. }) && !refused.to_string().contains("vvvv"));
    }
    for n in 0..32 {
        host.secrets.set(&tool, name(&format!("KEY_{n}")), &long[..4_096], Visibility::Env).await.unwrap();
    }
    let refused = host.secrets.set(&tool, name("ONE_MORE"), VALUE, Visibility::Env).await.unwrap_err();
    assert!(matches!(refused, SecretError::Field { pointer: "/name", .. }));
    host.secrets.set(&tool, name("KEY_0"), VALUE, Visibility::Env).await.unwrap();
}

/// Copies a record from one place to another.
async fn copy(host: &Host, from: (&SecretOwner, &str), to: (&SecretOwner, &str), change: impl Fn(&mut serde_json::Value)) {
    let sealed = SECRETS.get(&*host.store, &key(&from.0.id, &name(from.1))).await.unwrap().unwrap();
    let mut record = serde_json::to_value(&sealed).unwrap();
    change(&mut record);
    let sealed = serde_json::from_value(record).unwrap();
    SECRETS.put(&key(&to.0.id, &name(to.1)), &sealed).commit(&*host.store, Durability::Durable).await.unwrap();
}

#[tokio::test]
async fn a_record_moved_to_another_place_does_not_open() {
    let mut host = Host::new().await;
    let owner = builder();
    let (mine, sibling, other) = (endpoint(owner.clone()), endpoint(owner), endpoint(builder()));
    host.secrets.set(&mine, name("KEY"), VALUE, Visibility::Auth).await.unwrap();
    let theirs = other.owner.share().to_owned();
    for (to, under) in [(&mine, "OTHER"), (&sibling, "KEY"), (&other, "KEY")] {
        for claimed in [None, Some(theirs.clone())] {
            copy(&host, (&mine, "KEY"), (to, under), |record| {
                if let Some(owner) = &claimed {
                    record["owner"] = serde_json::json!(owner);
                }
            })
            .await;
            host.restart().await;
            assert!(matches!(host.secrets.for_call(&to.id, &to.owner).await, Err(SecretError::Unopened)), "{under}");
            let mut batch = Batch::new();
            batch.delete(&SECRETS, &key(&to.id, &name(under)));
            batch.commit(&*host.store, Durability::Durable).await.unwrap();
        }
    }
    // The tool with another owner, another key's name in the record, another visibility, another byte.
    host.restart().await;
    assert_eq!(value_of(&host.secrets, &mine, "KEY").await.as_deref(), Some(VALUE));
    assert!(matches!(host.secrets.for_call(&mine.id, &other.owner).await, Err(SecretError::Unopened)));
    let edits: [fn(&mut serde_json::Value); 4] = [
        |record| record["keyId"] = "0123456789abcdef".into(),
        |record| record["visibility"] = "env".into(),
        |record| record["nonce"] = STANDARD.encode([7; 12]).into(),
        |record| record["ciphertext"] = STANDARD.encode([7; 60]).into(),
    ];
    let stored = SECRETS.get(&*host.store, &key(&mine.id, &name("KEY"))).await.unwrap().unwrap();
    for edit in edits {
        copy(&host, (&mine, "KEY"), (&mine, "KEY"), edit).await;
        host.restart().await;
        assert!(matches!(host.secrets.for_call(&mine.id, &mine.owner).await, Err(SecretError::Unopened)));
        SECRETS.put(&key(&mine.id, &name("KEY")), &stored).commit(&*host.store, Durability::Durable).await.unwrap();
    }
    host.restart().await;
    assert_eq!(value_of(&host.secrets, &mine, "KEY").await.as_deref(), Some(VALUE));
}

#[test]
fn any_value_opens_where_it_was_sealed_and_nowhere_else() {
    let mut random = fastrand::Rng::with_seed(11);
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder);
    let words = ["a", "b", "ep_1", "ep_11", "1", "KEY", "KEY_1", "|", ""];
    let mut nonces = std::collections::BTreeSet::new();
    for _ in 0..400 {
        let length = random.usize(..300);
        let value: String = (0..length).map(|_| *random.choice(&['a', 'ß', '\0', '"', '🙂']).unwrap()).collect();
        let mut word = || *random.choice(&words).unwrap();
        let (here, there) =
            (SealContext { owner: word(), endpoint: word(), name: word() }, SealContext { owner: word(), endpoint: word(), name: word() });
        let sealed = SealedSecret::seal(ring.current(), here, &value, Visibility::Env, [Timestamp(1), Timestamp(2)]).unwrap();
        let sealed = SealedSecret::of_bytes(&sealed.to_bytes()).unwrap();
        assert_eq!(sealed.open(&ring, here).as_deref(), Some(&value));
        let same = (here.owner, here.endpoint, here.name) == (there.owner, there.endpoint, there.name);
        // Parts of a real place never contain a bar.
        let odd =
            [here, there].iter().any(|position| [position.owner, position.endpoint, position.name].iter().any(|part| part.contains('|')));
        assert!(same || odd || sealed.open(&ring, there).is_none());
        nonces.insert(serde_json::to_value(&sealed).unwrap()["nonce"].to_string());
    }
    assert_eq!(nonces.len(), 400);
}

#[tokio::test]
async fn a_deleted_endpoint_keeps_no_secret_and_its_neighbors_keep_theirs() {
    let host = Host::new().await;
    let (removed, stays) = (endpoint(builder()), endpoint(builder()));
    for tool in [&removed, &stays] {
        host.secrets.set(tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    }
    host.secrets.forget(&removed.id).await.unwrap();
    host.secrets.forget(&removed.id).await.unwrap();
    assert_eq!(host.secrets.list(&removed.id).await.unwrap(), []);
    assert_eq!(host.store.scan(Space::Secrets, KeyRange::all(), 10, Direction::Forward).await.unwrap().len(), 1);
    assert_eq!(value_of(&host.secrets, &stays, "KEY").await.as_deref(), Some(VALUE));
}

#[test]
fn keys_are_read_in_every_form_and_shown_in_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("master-key");
    let bytes = [0xfb; 32];
    let forms = [
        hex::encode(bytes),
        hex::encode_upper(bytes),
        STANDARD.encode(bytes),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
        format!(" {}\n", STANDARD.encode(bytes)),
    ];
    let ids: std::collections::BTreeSet<_> =
        forms.iter().map(|form| Keyring::open(Some(form), None, &file).unwrap().current().id().to_owned()).collect();
    assert_eq!(ids.len(), 1);
    assert!(!file.exists());
    for bad in ["", "password", &hex::encode([1; 31]), &STANDARD.encode([1; 33]), ","] {
        let refused = Keyring::open(Some(bad), None, &file).unwrap_err();
        assert!(bad.len() < 2 || !format!("{refused:?} {refused}").contains(bad));
    }
    let ring = Keyring::open(Some(&forms[0]), Some(&hex::encode([1; 32])), &file).unwrap();
    let shown = format!("{ring:?}");
    assert!(!shown.contains(&forms[0]) && !shown.contains("251") && shown.contains(ring.current().id()), "{shown}");
}

#[test]
fn the_key_file_is_made_once_and_refused_when_others_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("master-key");
    let first = Keyring::open(None, None, &file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Keyring::open(None, None, &file).unwrap().current().id(), first.current().id());
    // A key from settings comes first; the file's key still decrypts.
    let given = Keyring::open(Some(&hex::encode([1; 32])), None, &file).unwrap();
    assert_eq!(given.old().collect::<Vec<_>>(), [first.current().id()]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(Keyring::open(None, None, &file), Err(KeyError::Exposed { mode: 0o640, .. })));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "\n").unwrap();
    assert!(matches!(Keyring::open(None, None, &file), Err(KeyError::Malformed(_))));
}

#[test]
fn a_partial_key_file_is_replaced_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let (file, remaining) = (folder.path().join("master-key"), folder.path().join("master-key.new"));
    std::fs::write(&remaining, "half a k").unwrap();
    Keyring::open(None, None, &file).unwrap();
    assert!(file.exists() && !remaining.exists());
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&remaining).unwrap();
    let Err(KeyError::Io { source, .. }) = Keyring::open(None, None, &file) else { panic!("the limit is reached") };
    assert_eq!(source.kind(), std::io::ErrorKind::IsADirectory);
}

#[test]
fn a_key_file_that_cannot_be_read_is_not_passed_over() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let given = hex::encode([1; 32]);
    // The parent of the key file is not a folder.
    assert!(matches!(Keyring::open(Some(&given), None, &file.path().join("master-key")), Err(KeyError::Io { .. })));
}

#[test]
fn every_endpoint_of_every_owner_has_a_key_of_its_own_under_each_master_key() {
    let masters = [master::MasterKey::generate().unwrap(), master::MasterKey::generate().unwrap()];
    let positions = [("a", "x"), ("a", "y"), ("b", "x")];
    let derived = || masters.iter().flat_map(|master| positions.map(|(owner, endpoint)| *master.of_endpoint(owner, endpoint)));
    assert_eq!(derived().collect::<std::collections::HashSet<_>>().len(), masters.len() * positions.len());
    assert!(derived().eq(derived()), "a key is the same whenever it is derived");
}

/// Creates tools with secrets on more than two pages.
async fn many(host: &Host) -> Vec<SecretOwner> {
    let tools: Vec<_> = (0..15).map(|_| endpoint(builder())).collect();
    for tool in &tools {
        for n in 0..30 {
            host.secrets.set(tool, name(&format!("KEY_{n}")), &format!("{}-{n}", tool.id), Visibility::Env).await.unwrap();
        }
    }
    tools
}

async fn all_open(host: &Host, tools: &[SecretOwner]) {
    for tool in tools {
        let all = host.secrets.for_call(&tool.id, &tool.owner).await.unwrap();
        assert_eq!(all.len(), 30);
        assert!(all.iter().all(|secret| *secret.value == format!("{}-{}", tool.id, secret.name.trim_start_matches("KEY_"))));
    }
}

#[tokio::test]
async fn rotation_seals_everything_again_and_releases_the_old_key() {
    let mut host = Host::new().await;
    let tools = many(&host).await;
    let before = std::fs::read_to_string(host.file()).unwrap();
    let old = ring(&host.folder).current().id().to_owned();
    let rotated = host.secrets.rotate().await.unwrap();
    assert_eq!((rotated.resealed, rotated.unopened, &rotated.retired, rotated.needed.len()), (450, 0, &vec![old], 0));
    all_open(&host, &tools).await;
    host.restart().await;
    all_open(&host, &tools).await;
    let after = std::fs::read_to_string(host.file()).unwrap();
    assert!(!after.contains(before.trim()) && host.keys_on_disk() == 1);
    assert_eq!(std::fs::metadata(host.file()).unwrap().permissions().mode() & 0o777, 0o600);
    // The old key and the store together reveal nothing.
    let thief = open(&host.store, Keyring::open(Some(before.trim()), None, &host.folder.path().join("none")).unwrap()).await;
    assert!(matches!(thief.for_call(&tools[0].id, &tools[0].owner).await, Err(SecretError::Unopened)));
    let none = EndpointId::generate();
    for (one, is_unreadable) in [(&thief, true), (&host.secrets, false)] {
        assert_eq!((one.unreadable(&tools[0].id).await, one.unreadable(&none).await), (is_unreadable, false));
    }
}

#[tokio::test]
async fn a_rotation_cut_off_anywhere_loses_nothing_and_can_be_ended() {
    for nth in 1..=4 {
        for fault in [Fault::Before, Fault::After, Fault::Lost] {
            let mut host = Host::new().await;
            let tools = many(&host).await;
            host.store.fail_nth(nth, fault);
            let cut = host.secrets.rotate().await;
            assert_eq!(cut.is_err(), nth <= 3, "450 records are three commits");
            all_open(&host, &tools).await;
            host.restart().await;
            all_open(&host, &tools).await;
            assert_eq!(host.keys_on_disk(), if cut.is_err() { 2 } else { 1 });
            host.secrets.set(&tools[0], name("KEY_0"), &format!("{}-0", tools[0].id), Visibility::Env).await.unwrap();
            let rotated = host.secrets.rotate().await.unwrap();
            assert_eq!((host.keys_on_disk(), rotated.unopened), (1, 0));
            host.restart().await;
            all_open(&host, &tools).await;
        }
    }
    // A crash between saving the new key and the first record.
    let mut host = Host::new().await;
    let tools = many(&host).await;
    let before = host.secrets.derived("a use");
    assert!(before.len() == 1 && before != host.secrets.derived("another use") && before[0].iter().any(|byte| *byte != 0));
    host.store.fail_reads();
    assert!(host.secrets.rotate().await.is_err());
    host.restart().await;
    assert_eq!(host.keys_on_disk(), 2);
    let both = host.secrets.derived("a use");
    assert!(both.len() == 2 && both[0] != before[0] && both[1] == before[0], "the current one's first");
    all_open(&host, &tools).await;
    assert_eq!(host.secrets.rotate().await.unwrap().resealed, 450);
    assert_eq!(host.keys_on_disk(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_set_and_called_during_a_rotation_win() {
    let host = Arc::new(Host::new().await);
    let tools = Arc::new(many(&host).await);
    let setting = {
        let (host, tools) = (Arc::clone(&host), Arc::clone(&tools));
        tokio::spawn(async move {
            for tool in tools.iter() {
                host.secrets.set(tool, name("KEY_7"), "newer", Visibility::Env).await.unwrap();
                assert_eq!(value_of(&host.secrets, tool, "KEY_8").await, Some(format!("{}-8", tool.id)));
            }
        })
    };
    for _ in 0..3 {
        host.secrets.rotate().await.unwrap();
    }
    setting.await.unwrap();
    assert_eq!(host.keys_on_disk(), 1);
    for tool in tools.iter() {
        assert_eq!(value_of(&host.secrets, tool, "KEY_7").await.as_deref(), Some("newer"));
    }
}

#[tokio::test]
async fn keys_that_were_given_are_rotated_to_the_first_of_them() {
    let mut host = Host::new().await;
    let tools = many(&host).await;
    let (one, two) = (hex::encode([1; 32]), hex::encode([2; 32]));
    // From the file to a key from settings.
    host.secrets = open(&host.store, Keyring::open(Some(&one), None, &host.file()).unwrap()).await;
    all_open(&host, &tools).await;
    assert_eq!(host.secrets.rotate().await.unwrap().resealed, 450);
    host.secrets = open(&host.store, Keyring::open(Some(&one), None, &host.folder.path().join("none")).unwrap()).await;
    all_open(&host, &tools).await;
    assert!(matches!(host.secrets.rotate().await, Err(SecretError::GivenKey)));
    // To another key, in both ways of setting two.
    host.secrets = open(&host.store, Keyring::open(Some(&two), Some(&one), &host.folder.path().join("none")).unwrap()).await;
    all_open(&host, &tools).await;
    host.secrets = open(&host.store, Keyring::open(Some(&format!("{two},{one}")), None, &host.folder.path().join("none")).unwrap()).await;
    assert_eq!(host.secrets.rotate().await.unwrap().retired.len(), 1);
    all_open(&host, &tools).await;
}

#[tokio::test]
async fn a_lost_key_refuses_calls_and_setting_again_repairs_them() {
    let mut host = Host::new().await;
    let tool = endpoint(builder());
    host.secrets.set(&tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    std::fs::remove_file(host.file()).unwrap();
    host.restart().await;
    assert!(matches!(host.secrets.for_call(&tool.id, &tool.owner).await, Err(SecretError::Unopened)));
    assert_eq!(host.secrets.list(&tool.id).await.unwrap().len(), 1);
    let rotated = host.secrets.rotate().await.unwrap();
    assert_eq!((rotated.resealed, rotated.unopened), (0, 1));
    host.secrets.set(&tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    assert_eq!(value_of(&host.secrets, &tool, "KEY").await.as_deref(), Some(VALUE));
}
