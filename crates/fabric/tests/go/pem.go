// Of each line, bytes in hex: what encoding/pem finds in them, "+" and hex, or "-".
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		data, err := hex.DecodeString(lines.Text())
		if err != nil {
			panic(err)
		}
		if block, _ := pem.Decode(data); block != nil {
			fmt.Fprintf(out, "+%x\n", block.Bytes)
		} else {
			fmt.Fprintln(out, "-")
		}
	}
}
