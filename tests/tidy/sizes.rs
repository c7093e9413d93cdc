//! Checks that files are short enough to read in one go, and to have one subject.

use crate::sources;

/// Maximum number of lines of half of the files of the host and the sandbox, of nine in ten of
/// them, and of any of our files.
const MEDIAN: usize = 130;
const NINE_IN_TEN: usize = 300;
const MAX_LEN: usize = 500;

/// All lines count, including comments and tests. Files of tests count as well.
#[test]
#[expect(clippy::print_stdout, reason = "the figures help to split files")]
fn files_are_short() {
    let lines = |folder: &str| sources(folder).into_iter().map(|(file, text)| (text.lines().count(), file)).collect::<Vec<_>>();
    let mut sizes: Vec<_> = ["src", "sandbox"].iter().flat_map(|folder| lines(folder)).collect();
    sizes.sort_unstable();
    let within = |share: usize| sizes[(sizes.len() * share).div_ceil(100) - 1].0;
    let (median, nine_in_ten) = (within(50), within(90));
    println!("{} files: half have at most {median} lines, nine in ten at most {nine_in_ten}; the longest:", sizes.len());
    sizes.iter().rev().take(20).for_each(|(lines, file)| println!("{lines:>5} {file}"));
    assert!(median <= MEDIAN, "half of the files have more than {median} lines, and {MEDIAN} are enough");
    assert!(nine_in_ten <= NINE_IN_TEN, "a tenth of the files have more than {nine_in_ten} lines, and {NINE_IN_TEN} are enough");
    let others = ["tests", "xtask"].iter().flat_map(|folder| lines(folder));
    let long: Vec<_> = others.chain(sizes).filter(|(lines, _)| *lines > MAX_LEN).collect();
    assert!(long.is_empty(), "more than {MAX_LEN} lines: {long:?}");
}
