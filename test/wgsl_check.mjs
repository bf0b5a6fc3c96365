// wgsl_check.mjs WEBGPU FILE...: Tint takes each file, and Dawn makes a pipeline of it with WebGPU's
// default limits. WEBGPU is the folder of npm's webgpu, which is Dawn; no GPU is needed. Prints what
// is wrong, then "good N", how many files had nothing, and "many N", how many of them Tint takes but
// no pipeline does, because they have more storage buffers than the limit.
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, ...files] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(path.resolve(folder, 'index.js')));

Object.assign(globalThis, globals);
const gpu = create(['backend=null']); // held: Dawn hangs when node collects it
const adapter = await gpu.requestAdapter();
if (!adapter) throw new Error('no adapter');
const device = await adapter.requestDevice();
let good = 0;
let many = 0;

async function check(file) {
  const code = fs.readFileSync(file, 'utf8');
  const buffers = code.split('var<storage').length - 1;
  const isMany = buffers > device.limits.maxStorageBuffersPerShaderStage;
  device.pushErrorScope('validation');
  const module = device.createShaderModule({ code });
  if (!isMany) device.createComputePipeline({ layout: 'auto', compute: { module } });
  const info = await module.getCompilationInfo();
  const error = await device.popErrorScope();
  for (const m of info.messages) console.log(`${file}:${m.lineNum}:${m.linePos}: ${m.message}`);
  if (error) console.log(`${file}: ${error.message.split('\n')[0]}`);
  if (error || info.messages.length > 0) return;
  good++;
  if (isMany) many++;
}

for (const file of files) await check(file);
console.log(`good ${good}\nmany ${many}`);
device.destroy();
process.exit(0); // Dawn keeps node alive
