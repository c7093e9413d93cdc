//! Known answers of the RFCs and of NIST, answers of OpenSSL for the keys in the seeds of the fuzz
//! target, and round trips.

use crate::{
    Curve, Format, Hash, Okp, PairKind, Rsa, RsaPadding, cbc_decrypt, cbc_encrypt, ctr, gcm_open, gcm_seal, hkdf, hmac_sign, hmac_verify,
    kw_unwrap, kw_wrap, pbkdf2,
};

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text).expect("the table is hexadecimal")
}

/// A key in the seeds of the fuzz target `webcrypto-key`, which OpenSSL made.
macro_rules! seed {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/fuzz/seeds/webcrypto-key/", $name)).as_slice()
    };
}

/// Every kind with its keys in the seeds.
const KEYS: &[(&str, &[u8], &[u8])] = &[
    ("RSA", seed!("rsa.pkcs8"), seed!("rsa.spki")),
    ("P-256", seed!("p-256.pkcs8"), seed!("p-256.spki")),
    ("P-384", seed!("p-384.pkcs8"), seed!("p-384.spki")),
    ("P-521", seed!("p-521.pkcs8"), seed!("p-521.spki")),
    ("Ed25519", seed!("ed25519.pkcs8"), seed!("ed25519.spki")),
    ("X25519", seed!("x25519.pkcs8"), seed!("x25519.spki")),
];

/// Returns the private and the public key of a kind in the seeds.
fn pair(name: &str) -> (PairKind, Vec<u8>, Vec<u8>) {
    let (_, private, public) = KEYS.iter().find(|(kind, ..)| *kind == name).expect("each kind has a row");
    let kind = PairKind::named(name).expect("the kind exists");
    let private = kind.import(Format::Pkcs8, private).expect("OpenSSL's private key is valid");
    let public = kind.import(Format::Spki, public).expect("OpenSSL's public key is valid");
    (kind, private, public)
}

#[test]
fn hmac_gives_the_answers_of_rfc_4231() {
    for (hash, answer) in [
        (Hash::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        (Hash::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (Hash::Sha384, "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"),
        (
            Hash::Sha512,
            concat!(
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554",
                "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
            ),
        ),
    ] {
        let (key, data) = (b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hmac_sign(hash, key, data), bytes(answer), "{hash:?}");
        assert!(hmac_verify(hash, key, &bytes(answer), data), "{hash:?}");
        assert!(!hmac_verify(hash, key, &bytes(answer)[1..], data), "{hash:?}");
        assert!(!hmac_verify(hash, key, &bytes(answer), b"what do ya want for nothing!"), "{hash:?}");
    }
}

#[test]
fn hkdf_gives_the_answer_of_rfc_5869_and_at_most_255_blocks() {
    let mut output = [0; 42];
    let (key, salt, info) = (bytes(&"0b".repeat(22)), bytes("000102030405060708090a0b0c"), bytes("f0f1f2f3f4f5f6f7f8f9"));
    assert!(hkdf(Hash::Sha256, &key, &salt, &info, &mut output));
    let answer = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(output.as_slice(), bytes(answer));
    for (hash, size) in [(Hash::Sha1, 20), (Hash::Sha256, 32), (Hash::Sha384, 48), (Hash::Sha512, 64)] {
        assert!(hkdf(hash, &key, &[], &[], &mut vec![0; 255 * size]), "{hash:?}");
        assert!(!hkdf(hash, &key, &[], &[], &mut vec![0; 255 * size + 1]), "{hash:?}");
    }
}

#[test]
fn pbkdf2_gives_the_answers_of_rfc_6070_and_rfc_7914() {
    for (iterations, answer) in [
        (1, "0c60c80f961f0e71f3a9b524af6012062fe037a6"),
        (2, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"),
        (4_096, "4b007901b765489abead49d926f721d065a429c1"),
    ] {
        let mut output = [0; 20];
        pbkdf2(Hash::Sha1, b"password", b"salt", iterations, &mut output);
        assert_eq!(output.as_slice(), bytes(answer), "{iterations}");
    }
    let mut output = [0; 64];
    pbkdf2(Hash::Sha256, b"passwd", b"salt", 1, &mut output);
    let answer = concat!(
        "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc",
        "49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"
    );
    assert_eq!(output.as_slice(), bytes(answer));
}

#[test]
fn cbc_gives_the_answer_of_sp_800_38a_and_rejects_wrong_padding() {
    let (key, iv) = (bytes("2b7e151628aed2a6abf7158809cf4f3c"), bytes("000102030405060708090a0b0c0d0e0f"));
    let text = bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    let mut buffer = [text.as_slice(), &[0; 16]].concat();
    assert!(cbc_encrypt(&key, &iv, &mut buffer, 32));
    let answer = "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b255e21d7100b988ffec32feeafaf23538";
    assert_eq!(buffer, bytes(answer));
    assert_eq!(cbc_decrypt(&key, &iv, &mut buffer), Some(32));
    assert_eq!(&buffer[..32], text);
    // The second block ends in no padding.
    assert_eq!(cbc_decrypt(&key, &iv, &mut bytes(&answer[..64])), None);
    for (key, iv, length) in [(&key[..15], &iv[..], 16), (&key[..], &iv[..15], 16), (&key[..], &iv[..], 0), (&key[..], &iv[..], 17)] {
        assert_eq!(cbc_decrypt(key, iv, &mut vec![0; length]), None, "{length}");
        assert!(!cbc_encrypt(key, iv, &mut vec![0; length], length), "{length}");
    }
}

#[test]
fn ctr_gives_the_answer_of_sp_800_38a_and_wraps_in_its_bits() {
    let key = bytes("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
    let mut buffer = bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    assert!(ctr(&key, &bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), 128, &mut buffer));
    assert_eq!(buffer, bytes("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"));
    // The last eight bits count from 255 to 0 and 1: each block was encrypted alone by OpenSSL.
    let (key, counter) = (bytes("2b7e151628aed2a6abf7158809cf4f3c"), bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
    let mut buffer = [0; 37];
    assert!(ctr(&key, &counter, 8, &mut buffer));
    assert_eq!(buffer.as_slice(), bytes("ec8cdf7398607cb0f2d21675ea9ea1e44d08ef66db6c78047ad0639a1dd025f715f4450dd1"));
    for (bits, blocks, is_possible) in [(1, 2, true), (1, 3, false), (8, 256, true), (8, 257, false), (0, 1, false), (129, 1, false)] {
        assert_eq!(ctr(&key, &counter, bits, &mut vec![0; 16 * blocks]), is_possible, "{bits} bits, {blocks} blocks");
    }
    assert!(!ctr(&key, &counter[1..], 64, &mut [0; 16]));
    assert!(ctr(&key, &[0; 16], 128, &mut [0; 16]));
}

#[test]
fn gcm_gives_the_answers_of_its_specification_for_all_lengths_of_the_vector() {
    let text = bytes(concat!(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72",
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    ));
    let additional = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let key = bytes("feffe9928665731c6d6a8f9467308308");
    let long = concat!(
        "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728",
        "c3c0c95156809539fcf0e2429a6b525416aedbf5a0de6a57a637b39b"
    );
    for (key, iv, start, tag) in [
        (key.clone(), "cafebabefacedbaddecaf888", "42831ec2217774244b7221b784d0d49c", "5bc94fbc3221a5db94fae95ae7121a47"),
        (key.clone(), "cafebabefacedbad", "61353b4c2806934a777ff51fa22a4755", "3612d2e79e3b0785561be14aaca2fccb"),
        (key.clone(), long, "8ce24998625615b603a033aca13fb894", "619cc5aefffe0bfa462af43c1699d050"),
        (key.repeat(2), "cafebabefacedbaddecaf888", "522dc1f099567d07f47f37a32a84427d", "76fc6ece0f4e1768cddf8853bb2d551b"),
    ] {
        for size in [4, 8, 12, 13, 14, 15, 16] {
            let mut buffer = [text.as_slice(), &vec![0; size]].concat();
            assert!(gcm_seal(&key, &bytes(iv), &additional, size, &mut buffer), "{iv}");
            assert_eq!(&buffer[..16], bytes(start), "{iv}");
            assert_eq!(&buffer[text.len()..], &bytes(tag)[..size], "{iv}");
            let mut changed = buffer.clone();
            changed[7] ^= 1;
            assert!(!gcm_open(&key, &bytes(iv), &additional, size, &mut changed), "{iv}");
            assert!(!gcm_open(&key, &bytes(iv), &additional[1..], size, &mut buffer.clone()), "{iv}");
            assert!(gcm_open(&key, &bytes(iv), &additional, size, &mut buffer), "{iv}");
            assert_eq!(&buffer[..text.len()], text, "{iv}");
        }
    }
    assert!(!gcm_seal(&key, &[], &[], 16, &mut [0; 16]));
    assert!(!gcm_seal(&key[1..], &[1], &[], 16, &mut [0; 16]));
    assert!(!gcm_open(&key, &[1], &[], 16, &mut [0; 15]));
    assert!(!gcm_open(&key, &[1], &[], 0, &mut [0; 16]));
}

#[test]
fn key_wrap_gives_the_answers_of_rfc_3394() {
    let (key, data) =
        (bytes("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"), bytes("00112233445566778899aabbccddeeff"));
    for (key, data, answer) in [
        (&key[..16], data.clone(), "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5"),
        (&key[..], [&data[..], &key[..16]].concat(), "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21"),
    ] {
        let mut wrapped = vec![0; data.len() + 8];
        assert!(kw_wrap(key, &data, &mut wrapped));
        assert_eq!(wrapped, bytes(answer));
        let mut output = vec![0; data.len()];
        assert!(kw_unwrap(key, &wrapped, &mut output));
        assert_eq!(output, data);
        wrapped[0] ^= 1;
        assert!(!kw_unwrap(key, &wrapped, &mut output));
    }
    assert!(!kw_wrap(&key, &data[1..], &mut [0; 23]));
    assert!(!kw_wrap(&key, &[], &mut [0; 8]));
    assert!(!kw_unwrap(&key, &[0; 8], &mut []));
}

#[test]
fn ecdsa_gives_the_answer_of_rfc_6979() {
    let scalar = bytes("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
    let private = PairKind::Ec(Curve::P256).import(Format::RawPrivate, &scalar).expect("the scalar is valid");
    let answer = concat!(
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    );
    assert_eq!(Curve::P256.sign(Hash::Sha256, &private, b"sample"), Some(bytes(answer)));
}

/// Signatures of `message` by OpenSSL with the keys in the seeds.
#[test]
fn signatures_of_openssl_are_valid_and_changed_ones_are_not() {
    for (curve, name, answer) in [
        (
            Curve::P256,
            "P-256",
            concat!(
                "6c12e893825080b0584b0dad4b57a146cab32fe5f61e17523a1e77a56a7300fa90e0f33aa1942758aa17c9bf14d9da36",
                "950b2d479de7d916883d284ee68cd328"
            ),
        ),
        (
            Curve::P384,
            "P-384",
            concat!(
                "46502c52c41a61d66a61c7b629efbb55ddb72f610cd9b9aeb10b6547d49dcef262fdcee223545e13c4298fdfa4ffb4eb",
                "623c1a1581510e787ebf2edb78d0b1e3651fd2b6b7405ab8e47b9d8a256405690d92943dc9f90db6489289e9d12714a1"
            ),
        ),
        (
            Curve::P521,
            "P-521",
            concat!(
                "00fd8e7480c50cd2b56c575bcc0708930c654e4d8ca6e47e4ef93c5bff4a083190e05140694af2277d170126e4a1c7dc",
                "6d916819684693301741883c595d9a5ba7ec004c3d9ccf6c11d5617c36a2d037fbe77a86502fe7282bb752bbab032489",
                "0c53a7ae042a5392d82b5e87bf72e6f7ea3a325a2c5d477fca43a8b1e1ee9baf201b0628"
            ),
        ),
    ] {
        let (_, _, public) = pair(name);
        let mut signature = bytes(answer);
        assert!(curve.verify(Hash::Sha256, &public, &signature, b"message"), "{name}");
        assert!(!curve.verify(Hash::Sha384, &public, &signature, b"message"), "{name}");
        assert!(!curve.verify(Hash::Sha256, &public, &signature[1..], b"message"), "{name}");
        signature[40] ^= 1;
        assert!(!curve.verify(Hash::Sha256, &public, &signature, b"message"), "{name}");
    }
    let (_, private, public) = pair("RSA");
    let pkcs1 = bytes(concat!(
        "6e4eaf4729b5f95c7fb4e7c8b392be7c3596dfaedaf442c57e8dc57807774d3e06d03aeb5487331b23de72f28e65b0d4",
        "8aad0843f91e367ead3179ed01f7cefcf3dc29b374961ff51f5458a383f0c5c7cd1bae09c57f6b4cb89233117bcef6f7",
        "48d19af9644da12a03ee150e0cbca90461a5d7fd78850b1fa19f85aa4fece4f9"
    ));
    assert_eq!(Rsa::sign(RsaPadding::Pkcs1, Hash::Sha256, &private, b"message"), Some(pkcs1.clone()));
    assert!(Rsa::verify(RsaPadding::Pkcs1, Hash::Sha256, &public, &pkcs1, b"message"));
    assert!(!Rsa::verify(RsaPadding::Pkcs1, Hash::Sha1, &public, &pkcs1, b"message"));
    let pss = bytes(concat!(
        "2926b3abace0e7dcbc660b0be2d8e00fdcdba30bc22bc5bdab582efc8b14fb5dabe469c2b3573bcf0dd55002710dbd7b",
        "0c54577176dc36737641bcdc4d3be737fd0becd06a258eb0faad8f4e2bbf1aa9076c86510ba2db416a1bb44764ea5d91",
        "6f8e353e8972186ae4b2b8461637a00d39bbad4eebe8c29a58a774bda07f66e2"
    ));
    assert!(Rsa::verify(RsaPadding::Pss(20), Hash::Sha384, &public, &pss, b"message"));
    assert!(!Rsa::verify(RsaPadding::Pss(48), Hash::Sha384, &public, &pss, b"message"));
    let oaep = bytes(concat!(
        "28c18d86490e0732e5033ec3fcbdca9a09066279cbe55903fd0fa4be8def34e88eb3b59768b426f96b4f660011bc1adc",
        "91aeb56dfb01613734edb010e7f2a8de9293c20f5e1ef7859e698f1b7e559e924d75e389080f4c9374d325c64aa8934b",
        "2a7f70173f12a7d1d09ef926c338c0fdfc764f979d740a99a6099e333a0e8118"
    ));
    assert_eq!(Rsa::decrypt(Hash::Sha1, &private, b"label", &oaep), Some(b"message".to_vec()));
    assert_eq!(Rsa::decrypt(Hash::Sha1, &private, b"", &oaep), None);
}

#[test]
fn signatures_of_every_scheme_and_hash_are_valid() {
    let (_, private, public) = pair("RSA");
    for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512] {
        for padding in [RsaPadding::Pkcs1, RsaPadding::Pss(0), RsaPadding::Pss(32)] {
            let signature = Rsa::sign(padding, hash, &private, b"m").expect("the key is long enough");
            assert!(Rsa::verify(padding, hash, &public, &signature, b"m"), "{padding:?} {hash:?}");
            assert!(!Rsa::verify(padding, hash, &public, &signature, b"n"), "{padding:?} {hash:?}");
        }
        for (curve, name) in [(Curve::P256, "P-256"), (Curve::P384, "P-384"), (Curve::P521, "P-521")] {
            let (_, private, public) = pair(name);
            let signature = curve.sign(hash, &private, b"m").expect("the key is valid");
            assert_eq!(signature.len(), 2 * curve.field_bytes());
            assert!(curve.verify(hash, &public, &signature, b"m"), "{name} {hash:?}");
            assert!(!curve.verify(hash, &public, &signature, b"n"), "{name} {hash:?}");
        }
        // A modulus of 128 bytes has no room for two digests of SHA-512.
        let sealed = Rsa::encrypt(hash, &public, b"", b"text");
        assert_eq!(sealed.is_some(), hash != Hash::Sha512, "{hash:?}");
        if let Some(sealed) = sealed {
            assert_eq!(Rsa::decrypt(hash, &private, b"", &sealed), Some(b"text".to_vec()), "{hash:?}");
        }
    }
    for salt in [1_024, usize::MAX] {
        assert_eq!(Rsa::sign(RsaPadding::Pss(salt), Hash::Sha256, &private, b"m"), None);
        assert!(!Rsa::verify(RsaPadding::Pss(salt), Hash::Sha256, &public, &[0; 128], b"m"));
    }
}

#[test]
fn curves_of_rfc_8032_and_rfc_7748_give_their_answers() {
    let seed = bytes("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
    let private = PairKind::Okp(Okp::Ed25519).import(Format::RawPrivate, &seed).expect("any seed is valid");
    let public = bytes("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    assert_eq!(&private[32..], public);
    let answer = concat!(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    );
    assert_eq!(Okp::Ed25519.sign(&private, &[0x72]), Some(bytes(answer)));
    assert!(Okp::Ed25519.verify(&public, &bytes(answer), &[0x72]));
    assert!(!Okp::Ed25519.verify(&public, &bytes(answer), &[0x73]));
    // A public key of small order, for which a signature of zeros would be valid for many messages.
    let small = [&[1_u8][..], &[0; 31]].concat();
    assert!(!Okp::Ed25519.verify(&small, &[small.as_slice(), &[0; 32]].concat(), b""));

    let scalar = bytes("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
    let point = bytes("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
    let kind = PairKind::Okp(Okp::X25519);
    let private = kind.import(Format::RawPrivate, &scalar).expect("any scalar is valid");
    assert_eq!(kind.agree(&private, &point), Some(bytes("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")));
    assert_eq!(kind.agree(&private, &[0; 32]), None);
}

#[test]
fn both_parties_agree_and_generated_keys_differ() {
    for name in ["P-256", "P-384", "P-521", "X25519"] {
        let (kind, private, public) = pair(name);
        let own = kind.generate(0, 0).expect("the system gives random bytes");
        let own_public = kind.public_of(&own).expect("the key is valid");
        let shared = kind.agree(&own, &public).expect("the keys are valid");
        assert_eq!(kind.agree(&private, &own_public), Some(shared), "{name}");
        assert_ne!(kind.generate(0, 0), Some(own), "{name}");
    }
}

#[test]
fn rsa_keys_are_generated_within_the_limits() {
    let kind = PairKind::Rsa;
    let private = kind.generate(1_024, 65_537).expect("the length is possible");
    let public = kind.public_of(&private).expect("the key is valid");
    let signature = Rsa::sign(RsaPadding::Pkcs1, Hash::Sha256, &private, b"m").expect("the key is valid");
    assert!(Rsa::verify(RsaPadding::Pkcs1, Hash::Sha256, &public, &signature, b"m"));
    for (bits, exponent) in
        [(0, 3), (1_016, 3), (8_200, 3), (16_384, 3), (usize::MAX, 3), (1_024, 0), (1_024, 1), (1_024, 4), (1_024, u64::MAX)]
    {
        assert_eq!(kind.generate(bits, exponent), None, "{bits} {exponent}");
    }
}

#[test]
fn keys_survive_every_format() {
    for (name, pkcs8, spki) in KEYS {
        let (kind, private, public) = pair(name);
        assert_eq!(kind.public_of(&private).as_ref(), Some(&public), "{name}");
        for (format, key) in
            [(Format::Pkcs8, &private), (Format::RawPrivate, &private), (Format::Spki, &public), (Format::RawPublic, &public)]
        {
            let exported = kind.export(format, key).expect("a valid key has every format of its type");
            assert_eq!(kind.import(format, &exported).as_ref(), Some(key), "{name} {format:?}");
            assert_eq!(kind.import(format, &exported[..exported.len() - 1]), None, "{name} {format:?}");
            assert_eq!(kind.import(format, &[]), None, "{name} {format:?}");
        }
        assert_eq!(kind.export(Format::Spki, &public).as_deref(), Some(*spki), "{name}");
        assert_eq!(kind.export(Format::Pkcs8, &private).as_deref(), Some(*pkcs8), "{name}");
        for (other, pkcs8, spki) in KEYS.iter().filter(|(other, ..)| other != name) {
            assert_eq!(kind.import(Format::Pkcs8, pkcs8), None, "{name} {other}");
            assert_eq!(kind.import(Format::Spki, spki), None, "{name} {other}");
        }
    }
}

#[test]
fn private_rsa_keys_whose_numbers_do_not_belong_together_are_rejected() {
    let (kind, private, _) = pair("RSA");
    let fields = kind.export(Format::RawPrivate, &private).expect("the key is valid");
    assert!(kind.import(Format::RawPrivate, &fields).is_some());
    // The last bytes of the modulus and of the private exponent.
    for at in [129, fields.len() / 3] {
        let mut changed = fields.clone();
        changed[at] ^= 2;
        assert_eq!(kind.import(Format::RawPrivate, &changed), None, "{at}");
    }
}

#[test]
fn points_that_are_not_on_the_curve_are_rejected() {
    let (kind, _, public) = pair("P-256");
    let mut off = public.clone();
    off[64] ^= 1;
    assert_eq!(kind.import(Format::RawPublic, &off), None);
    assert_eq!(kind.import(Format::RawPublic, &[0]), None);
    let compressed = [&[2 + (public[64] & 1)][..], &public[1..33]].concat();
    assert_eq!(kind.import(Format::RawPublic, &compressed), Some(public));
    assert_eq!(kind.import(Format::RawPrivate, &[0; 32]), None);
    assert_eq!(kind.import(Format::RawPrivate, &[255; 32]), None);
}

/// Every kind parses any bytes, and writes a key that it accepted in every format of its type.
#[test]
fn key_of_any_bytes_is_rejected_or_survives() {
    tollhouse_fuzz::check("webcrypto-key", |bytes| {
        for (name, ..) in KEYS {
            let kind = PairKind::named(name).expect("the kind exists");
            for format in [Format::Pkcs8, Format::Spki, Format::RawPrivate, Format::RawPublic] {
                let Some(key) = kind.import(format, bytes) else { continue };
                let written = kind.export(format, &key).expect("an accepted key can be written");
                assert_eq!(kind.import(format, &written), Some(key));
            }
        }
    });
}
