// Reads lines of bytes in hex from standard input. For each line, the program prints the block that encoding/pem
// decodes from these bytes: "+" and hex, or "-" if there is no block.
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
