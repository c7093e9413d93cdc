use std::{convert::Infallible, net::Ipv4Addr, pin::pin};

use futures_util::{FutureExt as _, future::join_all, stream};
use tollhouse_config::{BodySettings, ConnectionSettings, IntakeSettings};
use tollhouse_money::receipt::bytes_hash;

use super::*;

const MIB: usize = 1 << 20;
const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

fn quota(max: Option<usize>, max_per_address: Option<usize>) -> QuotaSettings {
    QuotaSettings { max, max_per_address }
}

fn intake(held: Option<usize>) -> MemoryBudget {
    let none = quota(None, None);
    let connections = ConnectionSettings {
        open: none,
        head: None,
        head_bytes: 64 << 10,
        head_fields: 100,
        idle: None,
        write_stall: None,
        streams: 100,
        overhead_frames: None,
    };
    let bodies = BodySettings { time: None, stall: Some(Duration::from_secs(5)), held: quota(held, None), spooled: none };
    MemoryBudget::new(&IntakeSettings { connections, followers: none, bodies, answers: none })
}

fn spool(max: Option<usize>, max_per_address: Option<usize>) -> (Spool, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Spool::open(&folder.path().join("spool"), quota(max, max_per_address)).unwrap(), folder)
}

fn pieces(body: &[u8], of: usize) -> Body {
    let pieces: Vec<_> = body.chunks(of).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
    Body::from_stream(stream::iter(pieces))
}

struct Sent<'a> {
    peer: IpAddr,
    owner: &'a str,
    kept: usize,
    limit: usize,
}

const SENT: Sent<'static> = Sent { peer: ONE, owner: "a", kept: 64 * MIB, limit: 64 * MIB };

async fn read(spool: &Spool, intake: &MemoryBudget, sent: Sent<'_>, body: Body) -> Result<RawBody, ApiError> {
    let Sent { peer, owner, kept, limit } = sent;
    let (headers, content_type) = (HeaderMap::new(), "text/csv".to_owned());
    let request = SpoolRequest { peer, headers: &headers, content_type, owner, kept: kept as u64, limit: limit as u64 };
    spool.read(intake, request, body).await
}

#[test]
fn opening_deletes_files_and_keeps_folders() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lost+found")).unwrap();
    fs::write(folder.path().join("left"), "x").unwrap();
    Spool::open(folder.path(), quota(None, None)).unwrap();
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|found| found.unwrap().file_name()).collect();
    assert_eq!(names, ["lost+found"]);
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[tokio::test]
async fn a_body_has_the_hash_and_the_length_of_its_bytes_in_memory_and_on_disk() {
    let ((spool, _folder), intake) = (spool(None, None), intake(None));
    for len in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 4 * BLOCK_BYTES, 4 * BLOCK_BYTES + 7] {
        let sent = bytes(len);
        for piece in [10_007, BLOCK_BYTES, 3 * BLOCK_BYTES + 1] {
            let body = read(&spool, &intake, SENT, pieces(&sent, piece)).await.unwrap();
            assert_eq!((body.bytes, &*body.hash, &*body.content_type), (len as u64, &*bytes_hash(&sent), "text/csv"), "{len} in {piece}");
            assert_eq!(body.content.as_ref().unwrap().bytes(), len as u64);
            let on_disk = if len > BLOCK_BYTES { len.div_ceil(MIB) * MIB } else { 0 };
            assert_eq!(spool.used(), on_disk, "{len} in {piece}");
        }
    }
    assert_eq!((spool.used(), spool.owners.owners.lock().owners.len(), intake.held.used()), (0, 0, 0), "nothing is left");
}

#[tokio::test]
async fn a_body_above_what_is_kept_has_only_an_identity_and_above_the_limit_none() {
    let ((spool, _folder), intake) = (spool(None, None), intake(None));
    let sent = bytes(2 * MIB);
    for kept in [0, MIB, 2 * MIB - 1] {
        let body = read(&spool, &intake, Sent { kept, ..SENT }, pieces(&sent, 100_000)).await.unwrap();
        assert!(body.content.is_none() && body.hash == bytes_hash(&sent) && spool.used() == 0, "{kept}");
    }
    for body in [pieces(&sent, 100_000), Body::from(sent.clone())] {
        let refused = read(&spool, &intake, Sent { limit: 2 * MIB - 1, ..SENT }, body).await.unwrap_err();
        assert_eq!(refused.code(), Code::BodyTooLarge);
    }
    assert_eq!((spool.used(), intake.held.used()), (0, 0));
}

#[tokio::test]
async fn bodies_share_the_disk_by_address_and_by_owner() {
    let ((spool, _folder), intake) = (spool(Some(16 * MIB), Some(6 * MIB)), intake(None));
    let code = |read: Result<RawBody, ApiError>| read.err().map(|refused| refused.code());
    let of = |peer, owner, mib: usize| read(&spool, &intake, Sent { peer, owner, ..SENT }, pieces(&bytes(mib * MIB), 64 << 10));
    let held = of(ONE, "a", 6).await.unwrap();
    assert_eq!(code(of(ONE, "b", 1).await), Some(Code::Busy), "an address has its share");
    let more = of(OTHER, "a", 6).await.unwrap();
    let third = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
    assert_eq!(code(of(third, "a", 4).await), Some(Code::Busy), "an owner leaves some to others");
    let others = of(third, "b", 2).await.unwrap();
    drop((held, more, others));
    assert_eq!((spool.used(), spool.owners.owners.lock().all), (0, 0));
    assert!(of(ONE, "a", 6).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_or_breaks_off_leaves_nothing() {
    let ((spool, folder), intake) = (spool(None, None), intake(None));
    let first = || stream::iter([io::Result::Ok(Bytes::from(bytes(MIB)))]);
    let stops = Body::from_stream(first().chain(stream::pending::<io::Result<Bytes>>()));
    assert_eq!(read(&spool, &intake, SENT, stops).await.unwrap_err().code(), Code::BodyTooSlow);
    let breaks = Body::from_stream(first().chain(stream::iter([Err(io::Error::other("reset"))])));
    assert!(read(&spool, &intake, SENT, breaks).await.unwrap_err().message().contains("ended early"));
    assert_eq!((spool.used(), intake.held.used()), (0, 0));
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0, "files have no names");
}

#[tokio::test]
async fn a_body_that_the_memory_has_no_room_for_is_refused() {
    let ((spool, _folder), intake) = (spool(None, None), intake(Some(LEAST_BLOCK_BYTES - 1)));
    let refused = read(&spool, &intake, SENT, pieces(&bytes(100), 50)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Busy);
    assert!(read(&spool, &intake, SENT, Body::from(bytes(100))).await.is_ok(), "a body of one chunk is in the buffer of its connection");
}

/// A body that begins with these bytes and does not end.
fn unfinished(first: Vec<u8>) -> Body {
    Body::from_stream(stream::iter([io::Result::Ok(Bytes::from(first))]).chain(stream::pending()))
}

#[tokio::test]
async fn bodies_that_have_hardly_begun_leave_memory_to_others() {
    let ((spool, _folder), intake) = (spool(None, None), intake(Some(8 * MIB)));
    let mut begun = pin!(join_all((0..100).map(|_| read(&spool, &intake, SENT, unfinished(bytes(1))))));
    assert!(begun.as_mut().now_or_never().is_none());
    assert_eq!(intake.held.used(), 100 * LEAST_BLOCK_BYTES);
    let sent = bytes(BLOCK_BYTES);
    let body = read(&spool, &intake, Sent { peer: OTHER, ..SENT }, pieces(&sent, 100_000)).await.unwrap();
    assert_eq!((&*body.hash, spool.used()), (&*bytes_hash(&sent), 0));
}

#[tokio::test]
async fn long_body_has_a_small_part_in_memory() {
    let ((spool, _folder), intake) = (spool(None, None), intake(None));
    let mut begun = pin!(read(&spool, &intake, SENT, unfinished(bytes(MIB))));
    while intake.held.used() != FILE_BLOCK_BYTES {
        assert!(begun.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(spool.used(), MIB);
}

#[tokio::test]
async fn long_body_of_an_address_with_little_fits_into_the_reserve_of_memory() {
    let ((spool, _folder), intake) = (spool(None, None), intake(Some(8 * MIB)));
    let _others = intake.hold(ONE, 7 * MIB).unwrap();
    let sent = bytes(3 * MIB);
    let body = read(&spool, &intake, Sent { peer: OTHER, ..SENT }, pieces(&sent, 100_000)).await.unwrap();
    assert_eq!((&*body.hash, body.content.unwrap().bytes()), (&*bytes_hash(&sent), 3 * MIB as u64));
    let refused = read(&spool, &intake, SENT, pieces(&sent, 100_000)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Busy);
}

#[tokio::test]
async fn few_addresses_leave_disk_to_those_that_use_little() {
    for owners in [["a", "a"], ["a", "b"]] {
        let ((spool, _folder), intake) = (spool(Some(64 * MIB), Some(16 * MIB)), intake(None));
        let of = |last, owner| {
            let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
            read(&spool, &intake, Sent { peer, owner, ..SENT }, pieces(&bytes(2 * MIB), 64 << 10))
        };
        let mut held = vec![];
        for (last, owner) in (1..=4).flat_map(|last| [0, 1, 0, 1, 0, 1, 0, 1].map(|which| (last, owners[which]))) {
            held.extend(of(last, owner).await.ok());
        }
        assert!(spool.used() >= 44 * MIB && spool.used() <= 56 * MIB, "{owners:?}: {}", spool.used());
        assert!(of(5, "a").await.is_ok(), "{owners:?}: {}", spool.used());
    }
}

#[tokio::test]
async fn files_of_a_killed_process_are_deleted_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".tmpAbCd"), b"left").unwrap();
    Spool::open(folder.path(), quota(None, None)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
