// Parses signatures with Go's encoding/asn1, as hyperledger/fabric-lib-go calls it (bccsp/utils/ecdsa.go,
// UnmarshalECDSASignature), which ignores bytes after the signature. This program does not include Fabric's later checks
// that both numbers are positive.
//
// The program reads one signature per line in hexadecimal digits. For each, it writes "ok R S", both in hexadecimal
// digits with a sign if negative, or "no" if Go rejects the signature.
package main

import (
	"bufio"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
)

type ecdsaSignature struct {
	R, S *big.Int
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		raw, err := hex.DecodeString(lines.Text())
		if err != nil {
			panic(err)
		}
		var signature ecdsaSignature
		if _, err := asn1.Unmarshal(raw, &signature); err != nil {
			fmt.Fprintln(out, "no")
		} else {
			fmt.Fprintf(out, "ok %x %x\n", signature.R, signature.S)
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
	if err := out.Flush(); err != nil {
		panic(err)
	}
}
