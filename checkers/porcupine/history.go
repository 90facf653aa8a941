package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// A line of a history: a call when an operation began, a return when it was answered (docs/simulation.md, "Outside checkers").
type line struct {
	Kind    string   `json:"kind"`
	ID      int      `json:"id"`
	TimeUs  int64    `json:"time_us"`
	Process int      `json:"process"`
	Label   string   `json:"label"`
	Outcome string   `json:"outcome"`
	Actions []action `json:"actions"`
}

// An action is one step of an operation, with what was answered; what was not told is null. Only the fields of its kind are there.
type action struct {
	Read     *register `json:"read"`
	Write    *register `json:"write"`
	ReadList *blob     `json:"read_list"`
	Append   *blob     `json:"append"`
	Add      *register `json:"add"`
	Create   *blob     `json:"create"`
	Delete   *blob     `json:"delete"`
	Exists   *blob     `json:"exists"`
	Scan     *[2]blob  `json:"scan"`

	Value    *uint64  `json:"value"`
	Elements []uint64 `json:"elements"`
	Element  uint64   `json:"element"`
	Offset   *uint64  `json:"offset"`
	Operand  uint64   `json:"operand"`
	Old      *uint64  `json:"old"`
	There    bool     `json:"there"`
}

type blob uint32

// A register is a blob and a part of it.
type register [2]uint32

func (r register) blob() blob { return blob(r[0]) }

// An operation is a transaction, or a lone request, which is a transaction of one.
type operation struct {
	id        int
	process   int
	label     string
	call      int64
	answer    int64 // valid if it is committed
	committed bool
	actions   []action
}

// blobs are those that the operation reads or changes.
func (o *operation) blobs() []blob {
	var blobs []blob
	for _, a := range o.actions {
		switch {
		case a.Read != nil:
			blobs = append(blobs, a.Read.blob())
		case a.Write != nil:
			blobs = append(blobs, a.Write.blob())
		case a.Add != nil:
			blobs = append(blobs, a.Add.blob())
		case a.ReadList != nil:
			blobs = append(blobs, *a.ReadList)
		case a.Append != nil:
			blobs = append(blobs, *a.Append)
		case a.Create != nil:
			blobs = append(blobs, *a.Create)
		case a.Delete != nil:
			blobs = append(blobs, *a.Delete)
		case a.Exists != nil:
			blobs = append(blobs, *a.Exists)
		}
	}
	return blobs
}

// readHistory returns the operations that happened, or may have happened. One that ended in a conflict did not; what it read is not
// promised to fit together.
func readHistory(input io.Reader) ([]*operation, error) {
	var operations []*operation
	begun := map[int]*operation{}
	refused := map[int]bool{}
	scanner := bufio.NewScanner(input)
	scanner.Buffer(make([]byte, 1<<20), 1<<30)
	for number := 1; scanner.Scan(); number++ {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		o := begun[l.ID]
		switch {
		case l.Kind == "call" && o == nil:
			o = &operation{id: l.ID, process: l.Process, label: l.Label, call: l.TimeUs, actions: l.Actions}
			begun[l.ID] = o
			operations = append(operations, o)
		case l.Kind == "return" && o != nil:
			o.actions = l.Actions
			o.answer = l.TimeUs
			o.committed = l.Outcome == "committed"
			refused[l.ID] = l.Outcome == "conflict"
		default:
			return nil, fmt.Errorf("line %d: a %q of operation %d does not belong here", number, l.Kind, l.ID)
		}
	}
	var possible []*operation
	for _, o := range operations {
		if !refused[o.id] && len(o.actions) > 0 {
			possible = append(possible, o)
		}
	}
	return possible, scanner.Err()
}
