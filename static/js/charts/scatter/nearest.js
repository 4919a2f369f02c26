// The dot next to the pointer. Pure.

/**
 * The number of the dot nearest to a place, -1 if none is within `reach`. Of several at the same place the last, which is
 * in front.
 * @param {ReadonlyArray<[number, number]>} dots in shares of the plot
 * @param {[number, number]} place the same
 * @param {{width: number, height: number}} plot in pixels
 * @param {number} reach in pixels
 */
export function nearestDot(dots, place, plot, reach) {
  let found = -1;
  let least = reach;
  dots.forEach(([x, y], number) => {
    const distance = Math.hypot((x - place[0]) * plot.width, (y - place[1]) * plot.height);
    if (distance <= least) {
      found = number;
      least = distance;
    }
  });
  return found;
}
