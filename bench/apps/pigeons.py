"""Print an SMT problem that has no answer: N + 1 pigeons in N holes, with a little arithmetic beside it."""
import sys

holes = int(sys.argv[1])
print("(set-logic ALL)")
for p in range(holes + 1):
    for h in range(holes):
        print(f"(declare-const p{p}_{h} Bool)")
    print("(assert (or " + " ".join(f"p{p}_{h}" for h in range(holes)) + "))")
for h in range(holes):
    for p in range(holes + 1):
        for q in range(p):
            print(f"(assert (or (not p{p}_{h}) (not p{q}_{h})))")
for i in range(200):
    print(f"(declare-const x{i} Int)(assert (and (> x{i} {i}) (< x{i} (+ {i * 2 + 9} (ite p0_{i % holes} 1 2)))))")
print("(check-sat)")
