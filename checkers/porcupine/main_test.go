package main

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// verdict checks a history whose lines are given in short.
func verdict(t *testing.T, lines ...string) porcupine.CheckResult {
	t.Helper()
	operations, err := readHistory(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range components(operations) {
		if verdict, _ := c.check(time.Minute); verdict != porcupine.Ok {
			return verdict
		}
	}
	return porcupine.Ok
}

func call(id, time, actions string) string {
	return `{"kind":"call","id":` + id + `,"time_us":` + time + `,"process":` + id + `,"label":"x","actions":[` + actions + `]}`
}

func answer(id, time, outcome, actions string) string {
	return `{"kind":"return","id":` + id + `,"time_us":` + time + `,"process":` + id + `,"outcome":"` + outcome + `","actions":[` + actions + `]}`
}

func expect(t *testing.T, wanted porcupine.CheckResult, lines ...string) {
	t.Helper()
	if got := verdict(t, lines...); got != wanted {
		t.Errorf("the verdict is %v and not %v", got, wanted)
	}
}

const (
	append7  = `{"append":3,"element":7,"offset":0}`
	append8  = `{"append":3,"element":8,"offset":1}`
	asked8   = `{"append":3,"element":8,"offset":null}`
	write5   = `{"write":[1,0],"value":5,"number":null}`
	write6   = `{"write":[1,0],"value":6,"number":null}`
	read5    = `{"read":[1,0],"value":5,"number":null}`
	read6    = `{"read":[1,0],"value":6,"number":null}`
	readNone = `{"read":[1,0],"value":null,"number":null}`
)

func list(elements string) string { return `{"read_list":3,"elements":` + elements + `}` }

func TestAHistoryOfEveryKindOfActionIsAccepted(t *testing.T) {
	expect(t, porcupine.Ok,
		call("0", "1", append7), answer("0", "2", "committed", append7),
		call("1", "3", ""), answer("1", "4", "committed", list("[7]")+","+readNone),
		call("2", "5", write5), answer("2", "6", "committed", write5),
		call("3", "7", `{"add":[5,1],"operand":3,"old":null}`), answer("3", "8", "committed", `{"add":[5,1],"operand":3,"old":0}`),
		call("4", "9", `{"create":6,"number":null}`), answer("4", "10", "committed", `{"create":6,"number":null}`),
		call("5", "11", `{"delete":6,"number":null}`), answer("5", "12", "committed", `{"delete":6,"number":null}`),
		call("6", "13", ""), answer("6", "14", "committed", `{"exists":6,"there":false},`+read5),
	)
}

func TestALostAppendIsFound(t *testing.T) {
	lines := []string{
		call("0", "1", append7), answer("0", "2", "committed", append7),
		call("1", "3", append8), answer("1", "4", "committed", append8),
		call("2", "5", ""),
	}
	expect(t, porcupine.Ok, append(lines, answer("2", "6", "committed", list("[7,8]")))...)
	expect(t, porcupine.Illegal, append(lines, answer("2", "6", "committed", list("[7]")))...)
	expect(t, porcupine.Illegal, append(lines, answer("2", "6", "committed", list("[8,7]")))...)
	expect(t, porcupine.Illegal, append(lines, answer("2", "6", "committed", list("null")))...)
}

func TestAnAppendAtAnotherOffsetThanToldIsFound(t *testing.T) {
	expect(t, porcupine.Illegal,
		call("0", "1", append7), answer("0", "2", "committed", append7),
		call("1", "3", append7), answer("1", "4", "committed", `{"append":3,"element":8,"offset":0}`))
}

func TestAStaleReadIsFound(t *testing.T) {
	written := []string{
		call("0", "1", write5), answer("0", "2", "committed", write5),
		call("1", "3", write6), answer("1", "4", "committed", write6),
	}
	expect(t, porcupine.Illegal, append(written, call("2", "5", ""), answer("2", "6", "committed", read5))...)
	expect(t, porcupine.Ok, append(written, call("2", "5", ""), answer("2", "6", "committed", read6))...)
	// The read began before the second write was answered.
	expect(t, porcupine.Ok,
		call("0", "1", write5), answer("0", "2", "committed", write5),
		call("1", "3", write6), call("2", "4", ""), answer("1", "5", "committed", write6), answer("2", "6", "committed", read5))
}

func TestHalfATransactionIsFound(t *testing.T) {
	both := append7 + "," + write5
	seen := func(actions string) []string {
		return []string{
			call("0", "1", both), answer("0", "9", "committed", both),
			call("1", "2", ""), answer("1", "8", "committed", actions),
		}
	}
	expect(t, porcupine.Ok, seen(list("[7]")+","+read5)...)
	expect(t, porcupine.Ok, seen(list("[]")+","+readNone)...)
	expect(t, porcupine.Illegal, seen(list("[7]")+","+readNone)...)
	expect(t, porcupine.Illegal, seen(list("[]")+","+read5)...)
}

func TestWhatIsNotKnownToHaveHappenedMayHaveAtAnyTime(t *testing.T) {
	for _, seen := range []string{list("[7]"), list("[7,8]")} {
		expect(t, porcupine.Ok,
			call("0", "1", append7), answer("0", "2", "committed", append7),
			call("1", "3", asked8), answer("1", "4", "unknown", asked8),
			call("2", "5", ""), answer("2", "6", "committed", seen))
	}
	// But not twice, and what was seen once is seen ever after.
	expect(t, porcupine.Illegal,
		call("0", "1", append7), answer("0", "2", "committed", append7),
		call("1", "3", asked8),
		call("2", "5", ""), answer("2", "6", "committed", list("[7,8]")),
		call("3", "7", ""), answer("3", "8", "committed", list("[7]")))
}

func TestWhatEndedInAConflictMustNotBeSeen(t *testing.T) {
	expect(t, porcupine.Illegal,
		call("0", "1", write5), answer("0", "2", "conflict", write5),
		call("1", "3", ""), answer("1", "4", "committed", read5))
}

func TestACounterThatForgetsAnAdditionIsFound(t *testing.T) {
	add := func(old string) string { return `{"add":[5,0],"operand":3,"old":` + old + `}` }
	lines := []string{call("0", "1", add("null")), answer("0", "2", "committed", add("0")), call("1", "3", add("null"))}
	expect(t, porcupine.Ok, append(lines, answer("1", "4", "committed", add("3")))...)
	expect(t, porcupine.Illegal, append(lines, answer("1", "4", "committed", add("0")))...)
}

func TestComponentsShareNoBlob(t *testing.T) {
	operations, err := readHistory(strings.NewReader(strings.Join([]string{
		call("0", "1", write5), call("1", "2", append7), call("2", "3", `{"create":9,"number":null},`+append8), call("3", "4", write6),
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if parts := components(operations); len(parts) != 2 {
		t.Errorf("there are %d components", len(parts))
	}
}

func TestWhatIsNoHistoryIsRefused(t *testing.T) {
	for _, text := range []string{"x", answer("0", "1", "committed", ""), call("0", "1", "") + "\n" + call("0", "2", "")} {
		if _, err := readHistory(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken for a history", text)
		}
	}
}
