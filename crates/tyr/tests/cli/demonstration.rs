use std::fmt::Write;

use crate::{json::assert_documented, support::Scratch};

const FLIGHTS: usize = 3000;

/// A small data set of the same form as the real one.
fn write_data(scratch: &Scratch) {
    let mut flights = String::from("year,month,day,dep_delay,carrier,flight,hour,minute\n");
    for n in 0..FLIGHTS {
        let (month, day, hour, minute) = (1 + n / 250, 1 + n % 28, n % 24, (n * 7) % 60);
        let delay = if n % 41 == 0 {
            "NA".to_owned()
        } else {
            ((n * 37) % 200).cast_signed().wrapping_sub(30).to_string()
        };
        let carrier = ["UA", "AA", "DL", "B6"][n * n % 4];
        writeln!(flights, "2013,{month},{day},{delay},{carrier},{n},{hour},{minute}").expect("writes");
    }
    scratch.write("data/flights.csv", flights);
    let weather =
        "origin,year,month,day,hour,temp\nEWR,2013,1,1,1,39.02\nJFK,2013,12,31,23,NA\nEWR,2013,1,1,1,-3.5\n";
    scratch.write("data/weather.csv", weather);
    for n in 0..20 {
        scratch.write(format!("tree/d{}/file{n}", n % 3), format!("content {n}").repeat(n * 10));
    }
}

#[test]
fn the_demonstration_holds_what_it_claims() {
    let scratch = Scratch::new();
    write_data(&scratch);
    let arguments =
        ["demo", "--data", "data", "--tree", "tree", "--dir", "place", "--kills", "3", "--batch", "10"];
    let cluster = ["--one-in", "20", "--json", "-j", "2"];
    let run = scratch.run(arguments.into_iter().chain(cluster)).ok();
    let document = run.json();
    assert_documented("tyr demo", &document);
    assert_eq!((&document["passed"], &document["claims"]), (&true.into(), &document["hold"]), "{document}");
    assert_eq!(document["steps"].as_array().map(Vec::len), Some(8));
    let said = document.to_string();
    assert!(said.contains("3 of 3 workers were killed in the middle"), "{said}");
    assert!(said.contains(&format!("all {} rows", FLIGHTS + 3)), "{said}");
    let on_the_cluster = (FLIGHTS + 3).div_ceil(20);
    assert!(said.contains(&format!("all {on_the_cluster} rows")), "{said}");
    for act in ["SIGKILL for node", "is started again", "joins", "is drained", "holds nothing and is off"] {
        assert!(said.contains(act), "{act}: {said}");
    }
    // The store is what the demonstration says it is.
    let stat = scratch.run(["--store", "place/store", "blob", "ls", "events/batch/"]).ok().text();
    assert_eq!(stat.lines().count(), FLIGHTS.div_ceil(10) + 1);
}

#[test]
fn it_is_plain_in_a_pipe_and_does_not_touch_what_is_there() {
    let scratch = Scratch::new();
    write_data(&scratch);
    let arguments =
        ["demo", "--data", "data", "--tree", "tree", "--kills", "0", "--batch", "100", "--one-in", "0"];
    let arguments = arguments.into_iter().chain(["--dir", "place"]).collect::<Vec<_>>();
    let said = scratch.run(&arguments).ok().text();
    assert!(said.contains("[ok]") && !said.contains("[FAILED]") && !said.contains('✓'), "{said}");
    scratch.run(&arguments).fails(1, "must not exist yet");
}

#[test]
fn what_the_demonstration_needs_is_said() {
    let scratch = Scratch::new();
    scratch.run(["demo", "--tree", "."]).fails(2, "scripts/demo-data.sh");
    scratch.write("data/flights.csv", "a,b\n1,2\n");
    scratch.run(["demo", "--data", "data", "--tree", "."]).fails(2, "there is no column 'carrier'");
    scratch.run(["demo", "--batch", "0"]).fails(2, "one row or more");
}
