// Inside a flame graph as SVG: zoom by click, search, labels that fit. Uses only the document.
'use strict';
(() => {
  const MARGIN = 10;
  const CELL = 6.6;
  const FEWEST = 3;
  const LEAST_PX = 0.3;
  const SVG = 'http://www.w3.org/2000/svg';
  const root = document.documentElement;
  const reset = document.getElementById('reset');
  const search = document.getElementById('search');
  const title = root.querySelector('.title');
  const name = root.getAttribute('aria-label');
  const input = search.querySelector('input');
  const matched = document.getElementById('matched');
  const height = root.viewBox.baseVal.height;
  const narrow = /^[\x20-\x7e]*$/;
  const halfwidth = /^[\u00a0-\u10ff\u1e00-\u2319\uff61-\uffdc]$/;

  const frames = Array.from(document.querySelectorAll('#frames .f'), (group, index) => ({
    group,
    index,
    rect: group.querySelector('rect'),
    text: group.querySelector('text'),
    tip: group.querySelector('title').textContent,
    short: group.querySelector('desc')?.textContent ?? '',
    start: Number(group.dataset.s),
    weight: Number(group.dataset.w),
    depth: Number(group.dataset.d),
    shownX: -1,
    shownWidth: -1,
    found: false,
  }));
  for (const frame of frames) frame.name = frame.tip.split('\n', 1)[0];
  const whole = frames.find((frame) => !frame.group.classList.contains('up')) ?? null;
  let zoomed = whole;
  let width = 0;

  function cells(text) {
    if (narrow.test(text)) return text.length;
    let count = 0;
    for (const sign of text) count += narrow.test(sign) || halfwidth.test(sign) ? 1 : 2;
    return count;
  }

  function label(full, short, pixels) {
    const room = Math.floor((pixels - 6) / CELL);
    if (room < FEWEST) return '';
    if (cells(full) <= room) return full;
    const name = short || full;
    if (cells(name) <= room) return name;
    const signs = Array.from(name.slice(0, 2 * room)).slice(0, room - 1);
    while (signs.length && cells(signs.join('')) > room - 1) signs.pop();
    return signs.length >= FEWEST - 1 ? `${signs.join('').replace(/[\s…]+$/, '')}…` : '';
  }

  function write(frame, x, pixels) {
    const words = label(frame.name, frame.short, pixels);
    if (words === '') {
      if (frame.text) frame.text.textContent = '';
      return;
    }
    if (!frame.text) {
      frame.text = document.createElementNS(SVG, 'text');
      frame.text.setAttribute('y', Number(frame.rect.getAttribute('y')) + 12);
      frame.text.setAttribute('lengthAdjust', 'spacingAndGlyphs');
      frame.group.append(frame.text);
    }
    frame.text.textContent = words;
    frame.text.setAttribute('x', x + 3);
    frame.text.setAttribute('textLength', cells(words) * CELL);
  }

  function draw() {
    if (!zoomed) return;
    const from = zoomed.start;
    const scale = (width - 2 * MARGIN) / zoomed.weight;
    for (const frame of frames) {
      const left = Math.max(frame.start, from);
      const right = Math.min(frame.start + frame.weight, from + zoomed.weight);
      const x = MARGIN + (left - from) * scale;
      const pixels = (right - left) * scale;
      const above = frame.depth < zoomed.depth;
      const seen = pixels >= LEAST_PX;
      frame.group.classList.toggle('hidden', !seen);
      frame.group.classList.toggle('up', above);
      if (!seen || (frame.shownX === x && frame.shownWidth === pixels)) continue;
      frame.shownX = x;
      frame.shownWidth = pixels;
      frame.rect.setAttribute('x', x);
      frame.rect.setAttribute('width', Math.max(0.1, pixels - 0.5));
      write(frame, x, pixels);
    }
    reset.classList.toggle('hidden', zoomed === whole);
  }

  function zoom(frame) {
    zoomed = frame;
    draw();
  }

  function find() {
    const pattern = input.value;
    let expression = null;
    input.setCustomValidity('');
    try {
      if (pattern) expression = new RegExp(pattern);
    } catch {
      input.setCustomValidity('This is no regular expression.');
    }
    let weight = 0;
    let end = -1;
    for (const frame of frames) {
      frame.found = expression !== null && expression.test(frame.name);
      frame.group.classList.toggle('m2', frame.found);
      // Frames precede their descendants: those inside a counted match are not counted again.
      if (frame.found && whole && frame.start >= end) {
        weight += frame.weight;
        end = frame.start + frame.weight;
      }
    }
    if (!pattern) matched.textContent = '';
    else if (!expression) matched.textContent = 'no regular expression';
    else matched.textContent = `matched: ${whole ? ((100 * weight) / whole.weight).toFixed(2) : '0'} %`;
  }

  function fit() {
    width = Math.max(320, root.clientWidth || window.innerWidth);
    root.setAttribute('width', width);
    root.setAttribute('viewBox', `0 0 ${width} ${height}`);
    // In a narrow window, title and field leave room for each other.
    const field = Math.min(260, Math.floor(width * 0.45));
    search.setAttribute('x', width - MARGIN - field);
    search.setAttribute('width', field);
    const room = Math.floor((width - 3 * MARGIN - field) / 8.5);
    title.textContent = name.length > room ? `${name.slice(0, room - 1)}…` : name;
    matched.setAttribute('x', width - MARGIN);
    draw();
  }

  document.getElementById('frames').addEventListener('click', (event) => {
    const group = event.target.closest('.f');
    const frame = group && frames.find((candidate) => candidate.group === group);
    if (frame) zoom(frame);
  });
  for (const kind of ['click', 'keydown']) {
    reset.addEventListener(kind, (event) => {
      if (kind === 'click' || event.key === 'Enter' || event.key === ' ') zoom(whole);
    });
  }
  input.addEventListener('input', find);
  window.addEventListener('keydown', (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === 'f' && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === 'Escape') {
      if (document.activeElement === input && input.value) {
        input.value = '';
        find();
      } else zoom(whole);
    }
  });
  window.addEventListener('resize', fit);
  search.classList.remove('hidden');
  root.removeAttribute('role');
  fit();
})();
