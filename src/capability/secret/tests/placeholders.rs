//! Tests of secrets with hosts.

use super::*;

fn for_hosts(hosts: &[&str], places: &[SecretPlace]) -> SecretScope {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    SecretScope { visibility: Visibility::Hosts, hosts, places: places.to_vec() }
}

#[tokio::test]
async fn each_call_gets_a_placeholder_of_its_own_for_a_secret_with_hosts() {
    let mut host = Host::new().await;
    let tool = endpoint(builder());
    let scope = for_hosts(&["api.example.com"], &[SecretPlace::Header, SecretPlace::Url]);
    let set = host.secrets.set(&tool, name("KEY"), VALUE, scope.clone()).await.unwrap();
    assert_eq!((set.visibility, &set.hosts, &set.places), (Visibility::Hosts, &scope.hosts, &scope.places));
    let mut texts = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let all = host.secrets.for_call(&tool.id, &tool.owner).await.unwrap();
        let text = all[0].in_env().unwrap();
        assert!(*all[0].value == VALUE && !text.contains(VALUE) && text.starts_with("tollhouse_secret_"), "{text}");
        texts.insert(text.to_owned());
        host.restart().await;
    }
    assert_eq!(texts.len(), 2);
    assert!(host.secrets.rotate().await.unwrap().resealed == 1);
    assert_eq!(host.secrets.list(&tool.id).await.unwrap()[0].hosts, scope.hosts);
    assert_eq!(value_of(&host.secrets, &tool, "KEY").await.as_deref(), Some(VALUE));
}

#[tokio::test]
async fn hosts_and_places_of_a_record_cannot_be_changed_in_the_store() {
    let mut host = Host::new().await;
    let tool = endpoint(builder());
    let scope = for_hosts(&["api.example.com"], &[SecretPlace::Header]);
    host.secrets.set(&tool, name("KEY"), VALUE, scope).await.unwrap();
    for (field, value) in [
        ("hosts", serde_json::json!(["evil.example.net"])),
        ("hosts", serde_json::json!(["api.example.com", "evil.example.net"])),
        ("places", serde_json::json!(["header", "url"])),
        ("visibility", serde_json::json!("env")),
    ] {
        let before = SECRETS.get(&*host.store, &key(&tool.id, &name("KEY"))).await.unwrap().unwrap();
        copy(&host, (&tool, "KEY"), (&tool, "KEY"), |record| record[field] = value.clone()).await;
        host.restart().await;
        assert!(matches!(host.secrets.for_call(&tool.id, &tool.owner).await, Err(SecretError::Unopened)), "{field}");
        SECRETS.put(&key(&tool.id, &name("KEY")), &before).commit(&*host.store, Durability::Durable).await.unwrap();
        host.restart().await;
        assert!(host.secrets.for_call(&tool.id, &tool.owner).await.is_ok());
    }
}

#[tokio::test]
async fn value_for_hosts_is_long_enough_to_be_hidden() {
    let host = Host::new().await;
    let tool = endpoint(builder());
    for short in ["seven77", "  seven77 "] {
        let refused = host.secrets.set(&tool, name("KEY"), short, for_hosts(&["api.example.com"], &[SecretPlace::Header])).await;
        assert!(matches!(refused, Err(SecretError::Field { pointer: "/value", .. })), "{short:?}");
    }
    assert!(host.secrets.set(&tool, name("KEY"), "seven77", Visibility::Env).await.is_ok());
}

#[tokio::test]
async fn secret_that_the_handler_did_not_get_is_only_exposed_deliberately() {
    let host = Host::new().await;
    let tool = endpoint(builder());
    let scope = for_hosts(&["api.example.com", "b.example.com"], &[SecretPlace::Header]);
    host.secrets.set(&tool, name("KEY"), VALUE, scope.clone()).await.unwrap();
    host.secrets.set(&tool, name("SELLER_KEY"), VALUE, Visibility::Auth).await.unwrap();
    for (named, flags) in [("KEY", "--host api.example.com --host b.example.com"), ("SELLER_KEY", "--auth")] {
        let refused = host.secrets.set(&tool, name(named), "another value", Visibility::Env).await.unwrap_err();
        let SecretError::Field { pointer: "/visibility", message } = refused else { panic!("{refused:?}") };
        assert!(message.contains(flags) && message.contains("--expose"), "{message}");
        assert_eq!(value_of(&host.secrets, &tool, named).await.as_deref(), Some(VALUE));
    }
    host.secrets.set(&tool, name("KEY"), "another value", scope).await.unwrap();
    host.secrets.set(&tool, name("SELLER_KEY"), "another value", Visibility::Auth).await.unwrap();
    for named in ["KEY", "SELLER_KEY"] {
        let set = host.secrets.set_exposed(&tool, name(named), "a third value", Visibility::Env).await.unwrap();
        assert_eq!(set.visibility, Visibility::Env);
        host.secrets.set(&tool, name(named), "a fourth value", Visibility::Env).await.unwrap();
    }
}
