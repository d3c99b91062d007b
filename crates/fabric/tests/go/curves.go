// Makes tests/data/curves.json: identities over P-224, P-256, P-384 and P-521, with the verdicts of Go and of a peer's
// bccsp. A signature is accepted if its s is at most half of the curve's order. A certificate is identified by its
// SHA-256 after its own signature's s is made low.
//
//	go run crates/fabric/tests/go/curves.go > crates/fabric/tests/data/curves.json
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"time"
)

type numbers struct{ R, S *big.Int }

type certificate struct {
	TBS       asn1.RawValue
	Algorithm asn1.RawValue
	Signature asn1.BitString
}

type signature struct {
	What  string `json:"what"`
	Bytes string `json:"bytes"`
	Valid bool   `json:"valid"`
}

type testCase struct {
	Curves       string      `json:"curves"`
	Root         string      `json:"root"`
	Intermediate string      `json:"intermediate"`
	Member       string      `json:"member"`
	Revoked      string      `json:"revoked"`
	List         string      `json:"list"`
	ID           string      `json:"id"`
	Certifiers   string      `json:"certifiers"`
	Message      string      `json:"message"`
	Signatures   []signature `json:"signatures"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func half(curve elliptic.Curve) *big.Int {
	return new(big.Int).Rsh(curve.Params().N, 1)
}

// withS returns the certificate with a low or a high s in its signature.
func withS(der []byte, curve elliptic.Curve, low bool) []byte {
	var all certificate
	must(asn1.Unmarshal(der, &all))
	var of numbers
	must(asn1.Unmarshal(all.Signature.Bytes, &of))
	if (of.S.Cmp(half(curve)) <= 0) != low {
		of.S.Sub(curve.Params().N, of.S)
	}
	bytes := must(asn1.Marshal(of))
	all.Signature = asn1.BitString{Bytes: bytes, BitLength: 8 * len(bytes)}
	return must(asn1.Marshal(all))
}

// takes returns whether a peer accepts a member's signature.
func takes(key *ecdsa.PublicKey, message, bytes []byte) bool {
	var of numbers
	if _, err := asn1.Unmarshal(bytes, &of); err != nil {
		return false
	}
	if of.R.Sign() != 1 || of.S.Sign() != 1 || of.S.Cmp(half(key.Curve)) > 0 {
		return false
	}
	digest := sha256.Sum256(message)
	return ecdsa.Verify(key, digest[:], of.R, of.S)
}

type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

var serial int64 = 1

func template(name string, isCA bool, hash x509.SignatureAlgorithm) *x509.Certificate {
	serial++
	of := &x509.Certificate{
		SerialNumber:       big.NewInt(serial),
		Subject:            pkix.Name{CommonName: name},
		NotBefore:          time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:           time.Date(2046, 1, 1, 0, 0, 0, 0, time.UTC),
		SignatureAlgorithm: hash,
		SubjectKeyId:       []byte(name),
	}
	if isCA {
		of.BasicConstraintsValid, of.IsCA = true, true
		of.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	return of
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func one(curves [3]elliptic.Curve, hash x509.SignatureAlgorithm, low bool) testCase {
	root := authority{key: must(ecdsa.GenerateKey(curves[0], rand.Reader))}
	of := template("root", true, hash)
	rootDER := must(x509.CreateCertificate(rand.Reader, of, of, &root.key.PublicKey, root.key))
	rootDER = withS(rootDER, curves[0], low)
	root.cert = must(x509.ParseCertificate(rootDER))
	below := authority{key: must(ecdsa.GenerateKey(curves[1], rand.Reader))}
	of = template("intermediate", true, hash)
	belowDER := must(x509.CreateCertificate(rand.Reader, of, root.cert, &below.key.PublicKey, root.key))
	belowDER = withS(belowDER, curves[0], low)
	below.cert = must(x509.ParseCertificate(belowDER))
	key := must(ecdsa.GenerateKey(curves[2], rand.Reader))
	member := func(name string) ([]byte, *big.Int) {
		of := template(name, false, hash)
		der := must(x509.CreateCertificate(rand.Reader, of, below.cert, &key.PublicKey, below.key))
		return withS(der, curves[1], low), of.SerialNumber
	}
	memberDER, _ := member("member")
	revokedDER, revoked := member("revoked")
	list := must(x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		SignatureAlgorithm:        hash,
		Number:                    big.NewInt(1),
		ThisUpdate:                time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		NextUpdate:                time.Date(2046, 1, 1, 0, 0, 0, 0, time.UTC),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: revoked, RevocationTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}, below.cert, below.key))

	message := []byte("a message of a member")
	digest := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		panic(err)
	}
	if s.Cmp(half(curves[2])) > 0 {
		s.Sub(curves[2].Params().N, s)
	}
	encode := func(r, s *big.Int) []byte { return must(asn1.Marshal(numbers{r, s})) }
	lowS, order := encode(r, s), curves[2].Params().N
	all := []signature{}
	add := func(what string, bytes []byte) {
		all = append(all, signature{what, hex.EncodeToString(bytes), takes(&key.PublicKey, message, bytes)})
	}
	add("low s", lowS)
	add("high s", encode(r, new(big.Int).Sub(order, s)))
	add("bytes after it", append(append([]byte{}, lowS...), 0))
	add("another s", encode(r, new(big.Int).Xor(s, big.NewInt(2))))
	add("another r", encode(new(big.Int).Xor(r, big.NewInt(2)), s))
	add("r too large", encode(new(big.Int).Add(r, order), s))
	add("s of 0", encode(r, big.NewInt(0)))
	add("half of the order as s", encode(r, half(curves[2])))
	add("a negative r", encode(new(big.Int).Neg(r), s))
	add("cut", lowS[:len(lowS)-1])
	add("nothing", nil)

	id := sha256.Sum256(withS(memberDER, curves[1], true))
	certifiers := sha256.Sum256(append(withS(belowDER, curves[0], true), withS(rootDER, curves[0], true)...))
	names := ""
	for _, curve := range curves {
		names += curve.Params().Name + " "
	}
	return testCase{
		Curves:       names + hash.String(),
		Root:         text("CERTIFICATE", rootDER),
		Intermediate: text("CERTIFICATE", belowDER),
		Member:       text("CERTIFICATE", memberDER),
		Revoked:      text("CERTIFICATE", revokedDER),
		List:         text("X509 CRL", list),
		ID:           hex.EncodeToString(id[:]),
		Certifiers:   hex.EncodeToString(certifiers[:]),
		Message:      hex.EncodeToString(message),
		Signatures:   all,
	}
}

func main() {
	smallest, small, middle, large := elliptic.P224(), elliptic.P256(), elliptic.P384(), elliptic.P521()
	cases := []testCase{}
	for at, curves := range [][3]elliptic.Curve{
		{small, small, middle},
		{small, small, large},
		{middle, middle, middle},
		{middle, middle, small},
		{large, large, large},
		{middle, small, large},
		{large, middle, small},
		{small, large, middle},
		{middle, large, large},
		{smallest, smallest, smallest},
		{small, small, smallest},
		{smallest, small, large},
		{large, smallest, small},
	} {
		for place, hash := range []x509.SignatureAlgorithm{x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512} {
			cases = append(cases, one(curves, hash, (at+place)%2 == 0))
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	if err := out.Encode(cases); err != nil {
		panic(err)
	}
}
