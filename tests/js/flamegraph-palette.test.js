import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MODULES, ModuleColors, Palette, change, cssOf, hash, kinds, mixed, moduleName, modules, nodeColors } from '../../static/js/charts/flamegraph/palette.js';
import { Picture } from '../../static/js/charts/flamegraph/model.js';

/** A palette whose properties are all one color, but those given. */
function palette(colors = {}) {
  globalThis.getComputedStyle = () => ({ getPropertyValue: (name) => ` ${colors[name] ?? '#102030'}` });
  return new Palette(null);
}

function picture(changes = {}) {
  return new Picture({
    event: 'cycles',
    unit: 'count',
    total: 10,
    pruned: 0,
    kinds: ['user', 'kernel'],
    zoom: [],
    functions: { id: [-1, 10, 11], name: ['root', 'a', 'b'], short: [], module: ['', '/lib/libc.so', '[kernel]'], kind: [0, 0, 1] },
    nodes: { id: [0, 1, 2], depth: [0, 1, 1], function: [0, 1, 2], self: [0, 4, 6], total: [10, 4, 6] },
    ...changes,
  });
}

test('the hash is FNV-1a over UTF-8', () => {
  assert.equal(hash(''), 0x811c9dc5);
  assert.equal(hash('a'), 0xe40c292c);
  assert.equal(hash('foobar'), 0xbf9cf968);
  assert.notEqual(hash('é'), hash('e'));
});

test('a module is called by the last part of its path', () => {
  assert.equal(moduleName('/usr/lib/libc.so.6'), 'libc.so.6');
  assert.equal(moduleName('/usr/lib/'), 'lib');
  assert.equal(moduleName('[kernel.kallsyms]'), '[kernel.kallsyms]');
  assert.equal(moduleName(''), '[unknown]');
});

test('modules have different colors while there are any, and keep them', () => {
  const chosen = new ModuleColors();
  const names = Array.from({ length: MODULES }, (_, n) => `lib${n}.so`);
  const slots = names.map((name) => chosen.slot(name));
  assert.equal(new Set(slots).size, MODULES);
  assert.ok(chosen.slot('one-more.so') < MODULES);
  assert.deepEqual(names.map((name) => chosen.slot(`/other/${name}`)), slots);
});

test('kinds and modules are listed by self weight', () => {
  assert.deepEqual(kinds(picture()), ['kernel', 'user']);
  assert.deepEqual(modules(picture()), [
    { module: '[kernel]', self: 6, functions: [2] },
    { module: 'libc.so', self: 4, functions: [1] },
  ]);
});

test('a frame has the color of its kind, of its module, or of its self weight', () => {
  const colors = { '--flame-kernel-a': '#ff0000', '--flame-kernel-b': '#ff0000', '--flame-hot-4': '#00ff00' };
  const some = palette(colors);
  const byKind = nodeColors(picture(), 'kind', some, new ModuleColors());
  assert.equal(cssOf(byKind[2]), 'rgb(255 0 0)');
  assert.equal(cssOf(byKind[1]), 'rgb(16 32 48)');
  const hot = nodeColors(picture(), 'hot', some, new ModuleColors());
  assert.equal(cssOf(hot[2]), 'rgb(0 255 0)');
  assert.equal(cssOf(hot[0]), 'rgb(16 32 48)');
  const used = new ModuleColors();
  const byModule = nodeColors(picture(), 'module', palette({ [`--flame-module-${new ModuleColors().slot('[kernel]')}`]: '#0000ff' }), used);
  assert.equal(cssOf(byModule[2]), 'rgb(0 0 255)');
});

test('a difference is colored by what grew, whatever the mode', () => {
  const nodes = { id: [0, 1, 2], depth: [0, 1, 1], function: [0, 1, 2], self: [0, 4, 6], total: [10, 4, 6], base_self: [0, 0, 6], base_total: [6, 0, 6] };
  const some = palette({ '--flame-more': '#ff0000', '--flame-same': '#ffffff', '--flame-less': '#0000ff' });
  const shown = (reversed) => nodeColors(picture({ nodes, base: { total: 6, measured: 6, reversed } }), 'hot', some, new ModuleColors());
  assert.deepEqual([...shown(false)].slice(1).map(cssOf), ['rgb(255 0 0)', 'rgb(255 255 255)']);
  assert.equal(cssOf(shown(true)[1]), 'rgb(0 0 255)');
});

test('how much more one weight is than another', () => {
  assert.deepEqual([change(4, 0), change(0, 4), change(4, 4), change(0, 0), change(4, 2)], [1, -1, 0, 0, 0.5]);
});

test('a mixed color lies between both', () => {
  const fill = (255 << 24 | 0 << 16 | 100 << 8 | 200) >>> 0;
  assert.equal(mixed(fill, [0, 0, 0], 0), fill);
  assert.equal(cssOf(mixed(fill, [1, 2, 3], 1)), 'rgb(1 2 3)');
  assert.equal(cssOf(mixed(fill, [0, 0, 100], 0.5)), 'rgb(100 50 50)');
});

test('a property that is no color is named', () => {
  assert.throws(() => palette({ '--flame-few': 'red' }), /"red"/);
  assert.throws(() => palette().shades('no such kind'), /no such kind/);
});
