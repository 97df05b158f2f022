// Reads a log of ours with the tlog and note packages of Go's checksum database, and checks proofs with them.
//
//	check_log FOLDER VERIFIER_KEY < proofs
//
// A proof is a line: `record INDEX SIZE ROOT LEAF HASH…` or `tree OLD_SIZE NEW_SIZE OLD_ROOT NEW_ROOT HASH…`,
// hashes in base64. It prints how many entries and proofs it found right, and stops at the first that is wrong.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// folder reads tiles of height 8 from disk. C2SP leaves the height out of the path.
type folder string

func (f folder) Height() int { return 8 }

func (f folder) SaveTiles([]tlog.Tile, [][]byte) {}

func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
		data, err := os.ReadFile(filepath.Join(string(f), path))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func parseHash(text string) tlog.Hash {
	hash, err := tlog.ParseHash(text)
	must(err)
	return hash
}

func parseNumber(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return number
}

func readTree(dir string, key string) tlog.Tree {
	data, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	must(err)
	verifier, err := note.NewVerifier(key)
	must(err)
	opened, err := note.Open(data, note.VerifierList(verifier))
	must(err)
	lines := strings.Split(opened.Text, "\n")
	if lines[0] != verifier.Name() {
		log.Fatalf("the origin is %q", lines[0])
	}
	return tlog.Tree{N: parseNumber(lines[1]), Hash: parseHash(lines[2])}
}

// checkEntries compares every entry with its leaf hash, which the hash reader has proved to be in the tree.
func checkEntries(dir string, tree tlog.Tree, reader tlog.HashReader) {
	for start := int64(0); start < tree.N; start += 256 {
		tile := tlog.Tile{H: 8, L: -1, N: start / 256, W: 256}
		if tree.N-start < 256 {
			tile.W = int(tree.N - start)
		}
		path := strings.Replace(tile.Path(), "tile/8/data/", "tile/entries/", 1)
		data, err := os.ReadFile(filepath.Join(dir, path))
		must(err)
		var indexes []int64
		for i := 0; i < tile.W; i++ {
			indexes = append(indexes, tlog.StoredHashIndex(0, start+int64(i)))
		}
		hashes, err := reader.ReadHashes(indexes)
		must(err)
		for i := 0; i < tile.W; i++ {
			length := int(binary.BigEndian.Uint16(data))
			if tlog.RecordHash(data[2:2+length]) != hashes[i] {
				log.Fatalf("entry %d does not have its hash", start+int64(i))
			}
			data = data[2+length:]
		}
		if len(data) != 0 {
			log.Fatalf("%s has more entries", path)
		}
	}
}

func checkProof(words []string) {
	var hashes []tlog.Hash
	for _, word := range words[5:] {
		hashes = append(hashes, parseHash(word))
	}
	first, second := parseNumber(words[1]), parseNumber(words[2])
	if words[0] == "record" {
		must(tlog.CheckRecord(hashes, second, parseHash(words[3]), first, parseHash(words[4])))
	} else {
		must(tlog.CheckTree(hashes, second, parseHash(words[4]), first, parseHash(words[3])))
	}
}

func main() {
	tree := readTree(os.Args[1], os.Args[2])
	reader := tlog.TileHashReader(tree, folder(os.Args[1]))
	root, err := tlog.TreeHash(tree.N, reader)
	must(err)
	if root != tree.Hash {
		log.Fatal("the tiles do not have the root of the checkpoint")
	}
	checkEntries(os.Args[1], tree, reader)
	proofs := 0
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		checkProof(strings.Fields(scanner.Text()))
		proofs++
	}
	must(scanner.Err())
	fmt.Println(tree.N, proofs)
}
