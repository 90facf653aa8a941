//! The formats for outside checkers, byte by byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use kit::{X, Y, add, append, append_at, at, history, list, numbered, read, refused, unknown, write};
use tyr_sim::{ClientId, History, Operation};

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn lists_are_written_for_elle() {
    let lists = history([
        at(1, 4, [append_at(X, 7, 0), list(Y, [])]),
        refused(at(2, 3, [append(X, 8), write(Y, 1)])),
        unknown(Operation { completed: None, ..at(4, 4, [append(X, 9)]) }),
        at(5, 6, [list(X, [7, 9])]),
        at(5, 6, [write(Y, 3)]),
    ]);
    assert_eq!(
        text(|to| lists.write_list_append(to)),
        "{:index 0, :time 1000, :type :invoke, :process 0, :f :txn, :value [[:append 1 7] [:r 2 nil]]}\n\
         {:index 1, :time 2000, :type :invoke, :process 1, :f :txn, :value [[:append 1 8]]}\n\
         {:index 2, :time 3000, :type :fail, :process 1, :f :txn, :value [[:append 1 8]]}\n\
         {:index 3, :time 4000, :type :invoke, :process 2, :f :txn, :value [[:append 1 9]]}\n\
         {:index 4, :time 4000, :type :ok, :process 0, :f :txn, :value [[:append 1 7] [:r 2 []]]}\n\
         {:index 5, :time 5000, :type :invoke, :process 3, :f :txn, :value [[:r 1 nil]]}\n\
         {:index 6, :time 6000, :type :ok, :process 3, :f :txn, :value [[:r 1 [7 9]]]}\n"
    );
}

#[test]
fn registers_are_written_for_elle() {
    let registers = history([at(1, 2, [numbered(write(X, 7), 3)]), at(3, 4, [read(X, 7), read(Y, None)])]);
    assert_eq!(
        text(|to| registers.write_rw_register(to)),
        "{:index 0, :time 1000, :type :invoke, :process 0, :f :txn, :value [[:w :b1-0 7]]}\n\
         {:index 1, :time 2000, :type :ok, :process 0, :f :txn, :value [[:w :b1-0 7]]}\n\
         {:index 2, :time 3000, :type :invoke, :process 1, :f :txn, :value [[:r :b1-0 nil] [:r :b2-0 nil]]}\n\
         {:index 3, :time 4000, :type :ok, :process 1, :f :txn, :value [[:r :b1-0 7] [:r :b2-0 nil]]}\n"
    );
}

#[test]
fn events_are_written_as_lines_of_json() {
    let events =
        history([at(1, 2, [add(X, 5, 0)]), unknown(at(3, 4, [append(X, 7)])), at(3, 5, [list(X, [7])])]);
    assert_eq!(
        text(|to| events.write_json_lines(to)),
        r#"{"kind":"call","id":0,"time_us":1,"process":0,"client":0,"transaction":0,"label":"hand","actions":[{"add":[1,0],"operand":5,"old":null}]}
{"kind":"return","id":0,"time_us":2,"process":0,"client":0,"transaction":0,"outcome":"committed","actions":[{"add":[1,0],"operand":5,"old":0}]}
{"kind":"call","id":1,"time_us":3,"process":1,"client":1,"transaction":1,"label":"hand","actions":[{"append":1,"element":7,"offset":null}]}
{"kind":"call","id":2,"time_us":3,"process":2,"client":2,"transaction":2,"label":"hand","actions":[]}
{"kind":"return","id":1,"time_us":4,"process":1,"client":1,"transaction":1,"outcome":"unknown","actions":[{"append":1,"element":7,"offset":null}]}
{"kind":"return","id":2,"time_us":5,"process":2,"client":2,"transaction":2,"outcome":"committed","actions":[{"read_list":1,"elements":[7]}]}
"#
    );
}

/// Elle and Porcupine let a process do one thing at a time, and none after an unknown outcome.
#[test]
fn a_process_is_used_again_only_after_a_definite_answer() {
    let mut shared: History = history([
        at(1, 5, [write(X, 1)]),
        at(2, 3, [write(X, 2)]),
        unknown(at(4, 6, [write(X, 3)])),
        at(7, 8, [write(X, 4)]),
        at(7, 8, [write(X, 5)]),
    ]);
    shared.operations_mut().iter_mut().for_each(|operation| operation.client = ClientId(9));
    let lines = text(|to| shared.write_rw_register(to));
    let of = |value: u64| {
        let line = lines.lines().find(|line| line.contains(&format!(":b1-0 {value}]"))).unwrap();
        line.split(":process ").nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!([1, 2, 3, 4, 5].map(of), [0, 1, 1, 0, 2]);
}
