//! Parses transactions made by @solana/kit 5: 10,000 micro-dollars, signed by the payer and not yet by the fee payer.

use super::*;

pub(crate) const PAYER: &str = "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB";
pub(crate) const FEE_PAYER: &str = "J2xccRtuG43drESLYznHhLhQkLTdfepcKYbiQ9BsJVaf";
pub(crate) const PAY_TO: &str = "7v54NWdBtkjuAFJrLGsS2SXnuk8nKam81mZJeeYxVFi9";
const USDC: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";

pub(crate) const VERSION_0: &str = "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACBNxQBM10m2cmipQUqimjrmtBNnbkXF9n9HsFodaguoQcAUmZlsgx8EjcNM2dossD19i6ZxpbhrB6hktrUROYGgAIBAwf9FyQ4WqDHW2T7eM1gL6HZkf3r92sTxY7XAurINen2GOpKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIsZzAuSRiU10kupr5PkU6k9F+hQuZFhnyRZKJ21d128HbECpgUOwVD43h07Vbmrh6IPGDCBx48xgi1LARoPpGTgQMGRm/lIRcy/+ytunLDm+e8jOW7xfcSayxDmzpAAAAAxvp6877brTo9ZfNqq8l0MbG75MLS9uDkfKYCA0UvXWEG3fbh12Whk9nL4UbO63msHLSF7V9bN5E6jPWFfv8AqQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAwQABQJYGwAABAAJAwEAAAAAAAAABgQCBQMBCgwQJwAAAAAAAAYA";
const OLDEST: &str = "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADLMc58iaj4svZoFuc1l/bp9QvdRuAMwN3OL4a59IU98mzydI+ThZgDtDlHy1qwcwI8UwImduLm3tCCzUjp0SoGAgEDB/0XJDhaoMdbZPt4zWAvodmR/ev3axPFjtcC6sg16fYY6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0ixnMC5JGJTXSS6mvk+RTqT0X6FC5kWGfJFkonbV3XbwdsQKmBQ7BUPjeHTtVuauHog8YMIHHjzGCLUsBGg+kZOBAwZGb+UhFzL/7K26csOb57yM5bvF9xJrLEObOkAAAADG+nrzvtutOj1l82qryXQxsbvkwtL24OR8pgIDRS9dYQbd9uHXZaGT2cvhRs7reawctIXtX1s3kTqM9YV+/wCpAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDBAAFAlgbAAAEAAkDAQAAAAAAAAAGBAIFAwEKDBAnAAAAAAAABg==";

fn bytes() -> Vec<u8> {
    STANDARD.decode(VERSION_0).unwrap()
}

fn parsed(bytes: &[u8]) -> Result<Transaction, Unreadable> {
    Transaction::parse(&STANDARD.encode(bytes))
}

#[test]
fn a_transfer_is_read_in_both_forms_of_a_message() {
    for text in [VERSION_0, OLDEST] {
        let read = Transaction::parse(text).unwrap();
        assert_eq!((read.payer.as_str(), read.mint.as_str(), read.amount), (PAYER, USDC, 10_000));
    }
}

#[test]
fn identity_of_a_transaction_is_its_message_and_not_its_signatures() {
    let (first, mut completed) = (Transaction::parse(VERSION_0).unwrap(), bytes());
    completed[1..65].fill(7);
    assert_eq!(parsed(&completed), Ok(first.clone()), "the fee payer has signed too");
    assert_ne!(Transaction::parse(OLDEST).unwrap().message_hash, first.message_hash);
}

#[test]
fn nothing_in_it_can_be_altered() {
    let (good, first) = (bytes(), parsed(&bytes()).unwrap());
    // All bytes except the fee payer's signature.
    for position in (0..1).chain(65..good.len()) {
        let mut bad = good.clone();
        bad[position] ^= 1;
        assert_ne!(parsed(&bad).as_ref(), Ok(&first), "byte {position}");
        assert!(parsed(&bad).is_err(), "byte {position}");
    }
}

#[test]
fn truncated_or_longer_transaction_is_refused() {
    let good = bytes();
    for end in 0..good.len() {
        assert!(parsed(&good[..end]).is_err(), "{end} bytes");
    }
    assert_eq!(parsed(&[&good[..], &[0]].concat()), Err(Unreadable::Form));
    assert_eq!(parsed(&[1; MAX_BYTES + 1]), Err(Unreadable::Form));
    assert_eq!(Transaction::parse("no base64!"), Err(Unreadable::Form));
}

#[test]
fn lengths_are_read_in_their_one_form() {
    let length = |bytes: &[u8]| Bytes(bytes).length();
    assert_eq!([length(&[0]), length(&[0x7f]), length(&[0x80, 1]), length(&[0xff, 0x7f])], [0, 127, 128, 16_383].map(Some));
    assert_eq!([length(&[0x80, 0]), length(&[0x80]), length(&[]), length(&[0x80, 0x80, 0x80])], [None; 4]);
}

/// Returns the number of transfers in a message with one instruction to the program at this index among the keys.
fn transfers(program: u8, data: &[u8]) -> usize {
    let keys = ["11111111111111111111111111111111", TOKEN_PROGRAMS[0], TOKEN_PROGRAMS[1], USDC, PAYER];
    let mut message = vec![1, 0, 0, u8::try_from(keys.len()).unwrap()];
    keys.iter().for_each(|key| message.extend(bs58::decode(key).into_vec().unwrap()));
    message.extend([0; KEY_BYTES]);
    message.extend([1, program, 4, 4, 3, 4, 4, u8::try_from(data.len()).unwrap()]);
    message.extend(data);
    Message::parse(&message).unwrap().transfers.len()
}

#[test]
fn only_transfer_instructions_of_a_token_program_are_transfers() {
    let checked = [TRANSFER_CHECKED, 1, 0, 0, 0, 0, 0, 0, 0, 6];
    assert_eq!([transfers(1, &checked), transfers(2, &checked)], [1, 1]);
    assert_eq!([transfers(0, &checked), transfers(3, &checked), transfers(9, &checked)], [0; 3], "another program's");
    assert_eq!([transfers(1, &[3; TRANSFER_BYTES]), transfers(1, &checked[..9]), transfers(1, &[])], [0; 3], "something else");
}

#[test]
fn each_reason_is_reported() {
    for (reason, reported) in [
        (Unreadable::Form, "base64"),
        (Unreadable::NoTransfer, "exactly one `TransferChecked`"),
        (Unreadable::Unsigned, "signature is missing"),
    ] {
        assert!(reason.to_string().contains(reported), "{reason}");
    }
}
