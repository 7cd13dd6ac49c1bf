// Records ONNX Runtime's results for the cases of tests that have a file *_recorded.txt. With onnxruntime-node in FOLDER:
//   npm install --prefix FOLDER --ignore-scripts onnxruntime-node@1.30.0
//   SINTER_RECORD=cases.jsonl TEST                      (the test writes its cases and ends)
//   NODE_PATH=FOLDER/node_modules node tests/onnx/record.mjs cases.jsonl > tests/onnx/…_recorded.txt
import { createRequire } from 'module';
import { readFileSync } from 'fs';

const ort = createRequire(process.cwd() + '/')('onnxruntime-node');
const kinds = { 1: ['float32', Float32Array], 2: ['uint8', Uint8Array], 3: ['int8', Int8Array], 4: ['uint16', Uint16Array],
  5: ['int16', Int16Array], 6: ['int32', Int32Array], 7: ['int64', BigInt64Array], 8: ['string', Array], 9: ['bool', Uint8Array], 11: ['float64', Float64Array] };
const code = Object.fromEntries(Object.entries(kinds).map(([k, [name]]) => [name, k]));

const digits = x => typeof x === 'number' && !Number.isInteger(x) ? String(Number(x.toPrecision(7))) : String(x);
for (const line of readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean)) {
  const c = JSON.parse(line);
  try {
    const session = await ort.InferenceSession.create(Buffer.from(c.model, 'hex'), { graphOptimizationLevel: 'disabled', logSeverityLevel: 3 });
    const feeds = {};
    for (const x of c.inputs) {
      const [type, list] = kinds[x.type];
      const data = type === 'string' ? x.data : list.from(type === 'int64' ? x.data.map(v => BigInt(v)) : x.data.map(v => v ?? NaN));
      feeds[x.name] = new ort.Tensor(type, data, x.dims);
    }
    const results = await session.run(feeds);
    for (const name of session.outputNames) {
      const y = results[name];
      const text = y.type === 'string' ? [...y.data] : Array.from(y.data, digits);
      console.log([c.name, name, y.type === 'string' ? 8 : code[y.type], y.dims.length, ...y.dims, ...text].join(' '));
    }
  } catch (e) {
    console.error(`${c.name}: ${String(e.message ?? e).split('\n')[0]}`);
  }
}
