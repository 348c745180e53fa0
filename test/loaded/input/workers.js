// A deterministic node script: buffers and objects under the collector, worker threads, compression, digests, children.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { createHash, pbkdf2Sync, randomBytes } = require('crypto');
const { execFileSync } = require('child_process');
const zlib = require('zlib');

function work(seed) {
  let state = seed;
  const next = () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff);
  const kept = new Map();
  const sum = createHash('sha256');
  for (let i = 0; i < 6000; i++) {
    const buffer = Buffer.alloc(next() % 9000, next() & 255);
    kept.set(next() % 400, { buffer, text: buffer.toString('hex', 0, 64), list: Array.from({ length: next() % 30 }, (_, n) => n * i) });
    if (i % 40 === 0) sum.update(zlib.deflateSync(buffer, { level: 1 + (i % 9) }));
  }
  for (const [key, value] of [...kept].sort((a, b) => a[0] - b[0])) sum.update(JSON.stringify([key, value.text, value.list]));
  const packed = zlib.brotliCompressSync(Buffer.from(JSON.stringify([...kept.keys()])), { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } });
  sum.update(zlib.brotliDecompressSync(packed));
  sum.update(pbkdf2Sync('secret', String(seed), 50, 64, 'sha512'));
  randomBytes(1000);
  return sum.digest('hex');
}

async function main() {
  const rounds = Number(process.argv[2] || 1);
  for (let round = 0; round < rounds; round++) {
    const workers = Array.from({ length: 4 }, (_, n) => new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: round * 10 + n, resourceLimits: { maxYoungGenerationSizeMb: 2 } });
      let answer;
      worker.on('message', (message) => { answer = message; });
      worker.on('error', reject);
      worker.on('exit', (code) => (code === 0 ? resolve(answer) : reject(new Error(`worker ended with ${code}`))));
    }));
    const own = work(round * 10 + 9);
    global.gc();
    const squeezed = await new Promise((resolve, reject) =>
      zlib.gzip(Buffer.alloc(3000000, 'heddle'), (problem, data) => (problem ? reject(problem) : resolve(data.length))));
    const child = execFileSync(process.execPath, ['-e', 'console.log(JSON.stringify([...Array(20000).keys()]).length)'],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    console.log(own, squeezed, child.trim(), ...(await Promise.all(workers)));
  }
  console.log('done');
}

if (isMainThread) main();
else parentPort.postMessage(work(workerData));
