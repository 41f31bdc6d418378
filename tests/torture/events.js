// SPDX-License-Identifier: GPL-2.0-or-later
// Do node's timers, workers, servers and commands work as if nobody were there?
'use strict';
const { existsSync } = require('node:fs');
const { createHash } = require('node:crypto');
const { createServer, get } = require('node:http');
const { spawn } = require('node:child_process');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');

const begun = Date.now();
const until = process.env.TORTURE_UNTIL;
const more = () => Date.now() - begun < (until ? 60000 : 1000) && !(until && existsSync(until));
const digest = (text) => createHash('sha256').update(text.repeat(1000)).digest('hex');
const expected = digest('x');

if (!isMainThread) {
  parentPort.on('message', (text) => parentPort.postMessage(digest(text)));
} else {
  const wrong = {};
  const expect = (what, is) => { if (!is) wrong[what] = (wrong[what] || 0) + 1; };
  const again = async (work) => { do await work(); while (more()); };
  const command = () => new Promise((done) => {
    let text = '';
    const child = spawn('sh', ['-c', 'echo out; exit 3']);
    child.stdout.on('data', (data) => { text += data; });
    child.on('close', (code) => { expect('command', code === 3 && text === 'out\n'); done(); });
  });
  const request = (port) => new Promise((done) => {
    get({ port, host: '127.0.0.1' }, (answer) => {
      let text = '';
      answer.on('data', (data) => { text += data; });
      answer.on('end', () => { expect('request', text === expected); done(); });
    }).on('error', (error) => { expect(`request: ${error.code}`, false); done(); });
  });
  const worker = new Worker(__filename);
  const ask = () => new Promise((done) => {
    worker.once('message', (text) => { expect('worker', text === expected); done(); });
    worker.postMessage('x');
  });
  const nap = () => new Promise((done) => {
    const before = process.hrtime.bigint();
    setTimeout(() => { expect('timer', process.hrtime.bigint() - before > 4000000n); done(); }, 5);
  });
  const objects = async () => {
    const list = [];
    for (let i = 0; i < 50000; i++) list.push({ i, text: `${i}` });
    expect('objects', list.every((each, i) => each.text === String(i)));
    await nap();
  };
  const server = createServer((_, answer) => answer.end(digest('x')));
  server.listen(0, '127.0.0.1', async () => {
    const { port } = server.address();
    await Promise.all([command, () => request(port), ask, nap, objects].map(again));
    server.close();
    await worker.terminate();
    console.log('wrong', JSON.stringify(wrong));
    process.exitCode = 27;
  });
}
