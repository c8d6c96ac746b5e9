//! `SEQUENCE.…`: the answers and the refusals of each command, in both versions of the protocol.

use super::budgets::play_as_member;
use super::*;

#[test]
fn sequences_are_begun_read_watched_and_listed() {
    play_as_member(&[
        ("SEQUENCE.GET visits", "$-1|", "_|"),
        (
            "SEQUENCE.NEXT visits",
            "-NOSEQUENCE no sequence of this name is known here; begin it first|",
            "",
        ),
        (
            "SEQUENCE.WATCH visits 5",
            "-NOSEQUENCE no sequence of this name is known here; begin it first|",
            "",
        ),
        ("SEQUENCE.BEGIN visits", "+OK|", ""),
        (
            "sequence.begin visits",
            "-ERR there is a sequence of this name|",
            "",
        ),
        (
            "SEQUENCE.NEXT visits",
            "-NUMBERSSHORT no number is here to be handed out now; ask again, or wait for one|",
            "",
        ),
        ("SEQUENCE.WATCH visits 5", "+OK|", ""),
        ("SEQUENCE.WATCH visits 3", "+OK|", ""),
        ("SEQUENCE.UNWATCH visits 3", "+OK|", ""),
        ("SEQUENCE.UNWATCH visits 3", "+OK|", ""),
        (
            "SEQUENCE.GET visits",
            "*8|$4|next|:1|$6|issued|:0|$4|lost|:0|$7|watched|*1|*3|:5|$4|open|$-1|",
            "%4|$4|next|:1|$6|issued|:0|$4|lost|:0|$7|watched|*1|*3|:5|$4|open|_|",
        ),
        (
            "SEQUENCE.WATCH visits 0",
            "-ERR numbers go from 1 to 9223372036854775806, and 0 is none of them|",
            "",
        ),
        (
            "SEQUENCE.WATCH visits -1",
            "-ERR numbers go from 1 to 9223372036854775806, and -1 is none of them|",
            "",
        ),
        (
            "SEQUENCE.UNWATCH visits -9223372036854775808",
            "-ERR numbers go from 1 to 9223372036854775806, and -9223372036854775808 is none of them|",
            "",
        ),
        (
            "SEQUENCE.WATCH visits x",
            "-ERR value is not an integer or out of range|",
            "",
        ),
        ("SEQUENCE.BEGIN orders", "+OK|", ""),
        ("SEQUENCE.LIST", "*2|$6|orders|$6|visits|", ""),
        ("SEQUENCE.LIST v", "*1|$6|visits|", ""),
        (
            "SEQUENCE.LIST v visits w",
            "-ERR wrong number of arguments for 'sequence.list' command|",
            "",
        ),
        ("DBSIZE", ":0|", ""),
    ]);
}

#[test]
fn who_is_no_member_begins_none() {
    let mut client = Client::new(RespConfig::default());
    let refused = client.send("SEQUENCE.BEGIN visits");
    assert!(refused.starts_with("-ERR "), "{refused}");
}
