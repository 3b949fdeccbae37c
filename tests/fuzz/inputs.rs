//! Inputs: random bytes, and valid texts that have been damaged.

use super::support::Generator;

/// Bytes that mean something to one of the parsers.
const MEANINGFUL: &[u8] = b"%/?&=+#;:,.\"'<>\\ \r\n\t\0*{}[]()0123456789afAFxX\x7f\x80\xff";

/// In how many places a text is damaged at most.
const PLACES_MAX: usize = 6;

pub(crate) fn bytes(random: &mut Generator, length_max: usize) -> Vec<u8> {
    (0..random.below(length_max + 1)).map(|_| random.next().to_le_bytes()[0]).collect()
}

/// One of them, as the `text` that it holds is wanted again and again.
pub(crate) fn one_of<'t>(random: &mut Generator, texts: &[&'t str]) -> &'t str {
    random.pick(texts)
}

fn byte(random: &mut Generator) -> u8 {
    match random.one_in(3) {
        true => random.next().to_le_bytes()[0],
        false => MEANINGFUL[random.below(MEANINGFUL.len())],
    }
}

/// Damages `text` in one place.
fn damage(random: &mut Generator, text: &mut Vec<u8>, corpus: &[&[u8]]) {
    let at = random.below(text.len() + 1);
    let end = text.len().min(at + 1 + random.below(24));
    match random.below(12) {
        0..3 => {
            if let Some(place) = text.get_mut(at) {
                *place = byte(random);
            }
        }
        3..6 => text.insert(at, byte(random)),
        6..8 => drop(text.drain(at..end)),
        // A piece of it again, elsewhere.
        8 => {
            let piece = text[at..end].to_vec();
            let to = random.below(text.len() + 1);
            text.splice(to..to, piece);
        }
        // Up to here, and the rest of another one from there.
        9 => {
            let other = random.pick(corpus);
            text.truncate(at);
            text.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        10 => text.truncate(at),
        _ => {
            if let Some(letter) = text.get_mut(at) {
                *letter ^= if letter.is_ascii_alphabetic() { 0x20 } else { 0 };
            }
        }
    }
}

/// One of these texts, damaged in a few places or in none.
pub(crate) fn damaged(random: &mut Generator, corpus: &[&[u8]]) -> Vec<u8> {
    let mut text = random.pick(corpus).to_vec();
    for _ in 0..random.below(PLACES_MAX + 1) {
        damage(random, &mut text, corpus);
    }
    text
}

/// Damaged texts, and now and then bytes of no sense at all.
pub(crate) fn any_bytes(random: &mut Generator, corpus: &[&str]) -> Vec<u8> {
    if random.one_in(9) {
        return (0..random.below(64)).map(|_| byte(random)).collect();
    }
    let corpus: Vec<&[u8]> = corpus.iter().map(|text| text.as_bytes()).collect();
    damaged(random, &corpus)
}

/// The same where only text comes through: what is not UTF-8 is refused before.
pub(crate) fn text(random: &mut Generator, corpus: &[&str]) -> String {
    String::from_utf8_lossy(&any_bytes(random, corpus)).into_owned()
}
