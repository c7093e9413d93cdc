//! Contents that a backup copies.

use std::fs;

use super::{run, sold, text, walk};
use crate::harness::Host;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_copies_a_content_once_and_again_where_it_has_been_damaged_there() {
    let (host, _) = sold(Host::builder(), 1).await;
    let (data, to) = (host.folder().join("data"), host.folder().join("backups"));
    let args = ["backup", "--data", data.to_str().unwrap(), "--to", to.to_str().unwrap()];
    let backed_up = async |what: &str| {
        let answer = run(host.folder(), &args, &[]).await;
        assert!(answer.status.success() && text(&answer.stdout).contains(what), "`{what}` is not told: {answer:?}");
    };
    backed_up("1 copied, 0 there already").await;
    backed_up("0 copied, 1 there already").await;
    let copy = walk(&to.join("files")).into_iter().find(|path| path.is_file()).unwrap();
    fs::write(&copy, "damaged").unwrap();
    backed_up("1 copied, 0 there already").await;
    assert_eq!(fs::read_to_string(&copy).unwrap(), "the content");
}
