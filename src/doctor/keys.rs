//! Which spellings of keys a store takes for one: two spellings would have two fences.

use super::bench::{Bench, When};
use super::judge::noted;
use super::report::{Alias, Outcome};

/// Everything about keys.
pub(super) async fn run(bench: &Bench<'_>) -> Vec<Alias> {
    let under = |name: &str| bench.key(&format!("keys/{name}"));
    let pairs = [
        (Alias::DoubleSlash, "keys.double-slash", under("a//b"), under("a/b")),
        (Alias::LeadingSlash, "keys.leading-slash", format!("/{}", under("c")), under("c")),
        (Alias::Case, "keys.case", under("D"), under("d")),
        (Alias::UnicodeNormalForm, "keys.unicode", under("e\u{301}"), under("\u{e9}")),
        (Alias::DotSegment, "keys.dot-segment", under("f/./g"), under("f/g")),
    ];
    let mut found = Vec::new();
    for (alias, id, written, looked_at) in pairs {
        let judged = is_alias(bench, &written, &looked_at).await;
        if matches!(judged, Ok((Outcome::Noted, _, true))) {
            found.push(alias);
        }
        let judged = judged.map(|(outcome, evidence, _)| (outcome, evidence));
        bench.note_check(id, judged);
    }
    found
}

/// Writes under one spelling and looks under the other.
async fn is_alias(
    bench: &Bench<'_>,
    written: &str,
    looked_at: &str,
) -> Result<(Outcome, String, bool), super::bench::Silence> {
    let put = bench.put(written, "1", &When::Always).await?;
    if !put.done() {
        // Such a key cannot be written, so that it is nobody's other name.
        let evidence = format!("such keys are refused: {}", put.said());
        return Ok((Outcome::Noted, evidence, false));
    }
    let head = bench.head(looked_at).await?;
    let (outcome, evidence): (Outcome, String) = match head.status() {
        200 => noted("taken for one"),
        404 => noted("two keys"),
        _ => (Outcome::Unclear, head.said()),
    };
    Ok((outcome, evidence, head.status() == 200))
}
