const jestJupyterLab = require('@jupyterlab/testing/lib/jest-config');

// Packages that ship ES modules only: jest reads them through babel.
const esModules = [
  '@codemirror',
  '@jupyter',
  '@jupyterlab',
  '@microsoft',
  '@rjsf',
  'eventsource-parser',
  'exenv-es6',
  'lib0',
  'nanoid',
  'vscode-ws-jsonrpc',
  'y-protocols',
  'y-websocket',
  'yjs'
].join('|');

module.exports = {
  ...jestJupyterLab(__dirname),
  automock: false,
  collectCoverage: false,
  reporters: ['default'],
  // Ends what hangs; a busy machine may take a multiple of what it takes alone.
  testTimeout: 120000,
  testRegex: 'src/__tests__/.*\\.spec\\.tsx?$',
  transformIgnorePatterns: [`/node_modules/(?!(${esModules})).+`]
};
