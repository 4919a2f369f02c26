// A click on a heading sorts its table: descending first, then ascending; texts alphabetically.
for (const heading of document.querySelectorAll('thead th')) {
  heading.tabIndex = 0;
  const sort = () => {
    const body = heading.closest('table').tBodies[0];
    const place = heading.cellIndex;
    const down = heading.getAttribute('aria-sort') !== 'descending' && heading.classList.contains('number');
    const isDown = down || (!heading.classList.contains('number') && heading.getAttribute('aria-sort') === 'ascending');
    for (const other of heading.parentNode.cells) other.removeAttribute('aria-sort');
    heading.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
    const key = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
    const isNumber = heading.classList.contains('number');
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === '' || y === '') return (x === '') - (y === '');
      return (isNumber ? x - y : x.localeCompare(y)) * (isDown ? -1 : 1);
    });
    body.append(...rows);
  };
  heading.addEventListener('click', sort);
  heading.addEventListener('keydown', (event) => { if (event.key === 'Enter') sort(); });
}
