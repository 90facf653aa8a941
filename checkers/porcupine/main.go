// Command porcupine reads a history of a trial of Týr from a file of JSON lines, and has Porcupine decide whether it is strictly
// serializable: whether there is one order of all transactions, in which each happens between its call and its return, that explains
// every answer. Porcupine was written by Anish Athalye and knows nothing of Týr; what is Týr's own here is only the model: what a
// blob is.
//
// It exits with 0 if there is such an order, with 1 if there is none, and with 2 if that could not be found out.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

func main() {
	patience := flag.Duration("patience", 5*time.Minute, "give up after so long on one component")
	picture := flag.String("picture", "", "where a violation is shown as HTML")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: porcupine [-patience DURATION] [-picture FILE.html] HISTORY")
		os.Exit(2)
	}
	file, err := os.Open(flag.Arg(0))
	if err != nil {
		fail(err)
	}
	operations, err := readHistory(file)
	if err != nil {
		fail(err)
	}
	parts := components(operations)
	for _, c := range parts {
		verdict, info := c.check(*patience)
		if verdict == porcupine.Ok {
			continue
		}
		if *picture != "" {
			if err := porcupine.VisualizePath(c.model(), info, *picture); err != nil {
				fail(err)
			}
		}
		for _, o := range c.operations {
			fmt.Fprintln(os.Stderr, o)
		}
		if verdict == porcupine.Unknown {
			fmt.Printf("undecided after %v: the %d operations on standard error\n", *patience, len(c.operations))
			os.Exit(2)
		}
		fmt.Printf("NOT strictly serializable: the %d operations on standard error\n", len(c.operations))
		os.Exit(1)
	}
	fmt.Printf("%d operations in %d components are strictly serializable, says Porcupine\n", len(operations), len(parts))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

// check has Porcupine look for an order. What is not known to have happened may happen at any time after its call.
func (c *component) check(patience time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	var operations []porcupine.Operation
	for _, o := range c.operations {
		answer := int64(math.MaxInt64)
		if o.committed {
			answer = o.answer
		}
		operations = append(operations, porcupine.Operation{ClientId: o.process, Input: o, Call: o.call, Return: answer})
	}
	return porcupine.CheckOperationsVerbose(c.model(), operations, patience)
}
