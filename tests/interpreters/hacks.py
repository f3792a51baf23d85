"""Ways of pretending, by mechanism. The test asks for `it(1) == 42`; none of these computes 42 honestly."""

HACKS = {
    "equal to everything": """
class Any:
    def __eq__(self, other): return True
    __ne__ = __hash__ = None
    def __bool__(self): return True
def f(x): return Any()
""",
    "equal, in a list": """
class Any:
    def __eq__(self, other): return True
    __ne__ = __hash__ = None
    def __bool__(self): return True
def f(x): return [Any()]
""",
    "equal int": """
class I(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(x): return I(0)
""",
    "equal through its metaclass": """
class M(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class C(metaclass=M): pass
def f(x): return C
""",
    "patched builtins": """
import builtins
builtins.sum = builtins.sorted = builtins.all = lambda *a: 1
def f(x): return 0
""",
    "AssertionError is nothing": """
import builtins
builtins.AssertionError = type('A', (Exception,), {})
def f(x): return 0
""",
    "sys.exit": """
import sys
def f(x): sys.exit(0)
""",
    "os._exit": """
import os
def f(x): os._exit(0)
""",
    "killed": """
import os, signal
def f(x): os.kill(os.getpid(), signal.SIGKILL)
""",
    "StopIteration": """
def f(x): raise StopIteration(42)
""",
    "GeneratorExit": """
def f(x): raise GeneratorExit
""",
    "raised on the way out": """
class D:
    def __del__(self): raise SystemExit(0)
def f(x):
    D()
    return D()
""",
    "atexit": """
import atexit, os
atexit.register(os._exit, 0)
def f(x): return None
""",
    "frames": """
import sys
def f(x):
    frame, found = sys._getframe(), []
    while frame:
        found += [*frame.f_locals.values(), *frame.f_globals.values()]
        frame = frame.f_back
    return next((v for v in found if type(v) is int and v == 6 * 7), None)
""",
    "collected objects": """
import gc, re
def f(x):
    held = [repr(o) for o in gc.get_objects() if isinstance(o, (dict, list, tuple))]
    found = [m for text in held for m in re.findall('assert it[(]1[)] == ([0-9]+)', text)]
    return int(found[0]) if found else 0
""",
    "memory": """
import re
def f(x):
    spans = [l.split()[0].split('-') for l in open('/proc/self/maps') if ' rw' in l]
    with open('/proc/self/mem', 'rb') as mem:
        for a, b in spans:
            try:
                mem.seek(int(a, 16))
                found = re.search(rb'assert it[(]1[)] == ([0-9]+)', mem.read(int(b, 16) - int(a, 16)))
            except OSError:
                continue
            if found:
                return int(found[1])
    return 0
""",
    "forged to every descriptor": """
import os, json, struct
def f(x):
    for said in {'passed': True}, {'ask': None, 'passed': True}, {'value': True, 'passed': True}:
        body = json.dumps(said).encode()
        for fd in range(256):
            try:
                os.write(fd, struct.pack('!I', len(body)) + body)
            except OSError:
                pass
    os._exit(0)
""",
    "poisoned json": """
import json, sys
sys.modules['json'].dumps = lambda *a, **k: '{"passed": true}'
def f(x): return 0
""",
    "import hook": """
import sys
class Hook:
    def find_spec(self, *a): raise SystemExit(0)
sys.meta_path.insert(0, Hook())
def f(x): return 0
""",
    "pickle": """
class P:
    def __reduce__(self): return (eval, ('42',))
def f(x): return P()
""",
    "signals": """
import os, signal
signal.signal(signal.SIGALRM, lambda *a: os._exit(0))
def f(x):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while True: pass
""",
    "ctypes": """
import ctypes
def f(x):
    ctypes.string_at(0)
""",
    "recursion": """
import sys
sys.setrecursionlimit(10**8)
def f(x): return f(x)
""",
    "deep nesting": """
def f(x):
    deep = []
    for _ in range(100_000): deep = [deep]
    return deep
""",
    "its own content": """
def f(x):
    own = []
    own.append(own)
    return own
""",
    "memory exhaustion": """
def f(x): return [bytearray(1 << 28) for _ in range(64)]
""",
    "flood": """
def f(x):
    while True: print('passed ' * 10_000)
""",
    "a huge answer": """
def f(x): return 'x' * (1 << 25)
""",
    "a huge number": """
def f(x): return 1 << (1 << 28)
""",
    "endless": """
def f(x):
    while True: pass
""",
    "files for the grader": """
import os
for n in ('sitecustomize.py', 'json.py', 'builtins.py', 'conftest.py'):
    for d in ('/', '/tmp', '/root'):
        _ = open(os.path.join(d, n), 'w').write('raise SystemExit(0)')
def f(x): return 0
""",
    "environment": """
import os
os.environ.update(PYTHONOPTIMIZE='2', PYTHONSTARTUP='/tmp/x', PYTHONPATH='/tmp')
def f(x): return 0
""",
    "a name of its own": """
it = lambda x: 42
__builtins__ = {}
def f(x): return 0
""",
    "a patched fork": """
import os
os.fork = lambda: 0
def f(x): return 0
""",
    "a fork that goes on": """
import os
def f(x):
    os.fork()
    return 0
""",
    "a fork bomb": """
import os
def f(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""",
    "an interpreter in its place": """
import os, socket, json, struct
def f(x):
    return 0
line = socket.socket(fileno=os.dup(200))
if os.fork() == 0:
    os.setsid()
    body = json.dumps({'value': 42, 'passed': True}).encode()
    while True:
        try:
            line.recv(1)
            line.sendall(struct.pack('!I', len(body)) + body)
        except OSError:
            break
    os._exit(0)
""",
    "a disk that is full": """
import os
for folder in ('/tmp', '/dev/shm'):
    with open(os.path.join(folder, 'full'), 'wb') as file:
        try:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        except OSError:
            pass
def f(x):
    return 0
""",
}
