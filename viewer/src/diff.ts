/** Which lines of two texts are not in the other one, in order. */

/** Above this many cells of the table, only equal beginnings and ends are found. */
const LARGEST = 1_000_000;

/** For each text, whether each of its lines is its own. */
export function ownLines(left: string, right: string): [boolean[], boolean[]] {
  const [a, b] = [left.split("\n"), right.split("\n")];
  const own: [boolean[], boolean[]] = [a.map(() => true), b.map(() => true)];
  let first = 0;
  while (first < a.length && first < b.length && a[first] === b[first]) {
    own[0][first] = own[1][first] = false;
    first += 1;
  }
  let [endA, endB] = [a.length, b.length];
  while (endA > first && endB > first && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
    own[0][endA] = own[1][endB] = false;
  }
  const [rows, columns] = [endA - first, endB - first];
  if (rows === 0 || columns === 0 || rows * columns > LARGEST) {
    return own;
  }
  const width = columns + 1;
  const common = new Uint32Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      common[i * width + j] =
        a[first + i] === b[first + j]
          ? (common[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
    }
  }
  let [i, j] = [0, 0];
  while (i < rows && j < columns) {
    if (a[first + i] === b[first + j]) {
      own[0][first + i] = own[1][first + j] = false;
      i += 1;
      j += 1;
    } else if ((common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0)) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return own;
}
