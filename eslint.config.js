// `make lint` checks the scripts of our pages and their tests with these rules.
import js from '@eslint/js';
import globals from 'globals';

const rules = {
  ...js.configs.recommended.rules,
  eqeqeq: ['error', 'always', { null: 'ignore' }],
  'no-implicit-globals': 'error',
  'no-shadow': 'error',
  'no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
  'no-use-before-define': ['error', { functions: false, variables: false, classes: false }],
  'no-var': 'error',
  'object-shorthand': 'error',
  'prefer-const': 'error',
  'no-eval': 'error',
  'no-implied-eval': 'error',
  'no-new-func': 'error',
};

export default [
  { ignores: ['**/node_modules/', '.venv/', '.cache/', 'build/', 'dist/', 'perfloom/', 'app/static/', 'tests/data/'] },
  {
    files: ['static/js/**/*.js'],
    languageOptions: { ecmaVersion: 2022, sourceType: 'module', globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules,
  },
  {
    // These are no modules: they are in one file with the page or image that they act on.
    files: ['app/charts/*.js', 'app/exporters/*.js'],
    languageOptions: { ecmaVersion: 2022, sourceType: 'script', globals: globals.browser },
    rules: { ...rules, 'no-shadow': 'off' },
  },
  {
    files: ['tests/js/**/*.js', 'eslint.config.js'],
    languageOptions: { ecmaVersion: 2022, sourceType: 'module', globals: globals.node },
    rules,
  },
];
