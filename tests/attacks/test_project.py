"""This project itself: whether it is installed, where it lies, and what its files say."""

from __future__ import annotations

from pathlib import Path

import mappa_env
from attacks.harness import battery, table

ATTACKS = [
    *table(
        """
### version_of_the_project
import numpy, importlib.metadata
print('GOT', importlib.metadata.version('mappa'))
### project_among_distributions
import numpy, importlib.metadata
for found in importlib.metadata.distributions():
    if found.metadata['Name'] in ('mappa', None):
        print('GOT', found.read_text('METADATA'))
### entry_points_of_the_project
import numpy, importlib.metadata
print('GOT' if 'mappa-env' in importlib.metadata.entry_points(group='console_scripts').names else '')
### files_of_the_project
import numpy, os, sys
for folder in [os.path.dirname(sys.executable), *sys.path]:
    for path, _, files in os.walk(folder):
        for name in files:
            if 'mappa' in os.path.join(path, name):
                try:
                    print('GOT', name, open(os.path.join(path, name), 'rb').read(99))
                except OSError:
                    pass
### names_of_the_project
import numpy, os, sys
for folder in [os.path.dirname(sys.executable), *sys.path]:
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if 'mappa' in name and folder != os.getcwd():
            print('GOT', name)
### hooks_of_an_editable_install
import numpy, sys
for hook in (*sys.meta_path, *sys.path_hooks):
    if getattr(hook, '__module__', '').startswith('__editable___mappa'):
        print('GOT', vars(sys.modules[hook.__module__])['MAPPING'])
"""
    ),
    *table(
        f"""
### place_of_the_project
import gc, os, sys
place = {str(Path(mappa_env.__file__).parents[1])!r}, '/mappa', '_env'
def search(where, *things):
    for thing in things:
        if ''.join(place) in str(thing):
            print('GOT', where, str(thing)[:200])
search('arguments', sys.argv, sys.orig_argv, sys.path, list(sys.path_importer_cache))
search('environment', os.environ)
for name in ('cmdline', 'environ', 'maps', 'mountinfo', 'stat'):
    try:
        search(name, open('/proc/self/' + name, errors='replace').read())
    except OSError:
        pass
for name, module in list(sys.modules.items()):
    search(name, *(getattr(module, each, '') for each in ('__file__', '__path__', '__spec__', '__cached__')))
frame = sys._getframe()
while frame := frame.f_back:
    search('frame', frame.f_code.co_filename)
    search('local', *(each for each in frame.f_locals.values() if each is not globals()))
for thing in gc.get_objects():
    if type(thing) in (list, tuple, set, dict):
        search('object', [each for each in (*thing, *(thing.values() if type(thing) is dict else ()))
                          if type(each) is str])
    if hasattr(thing, '__code__'):
        search('function', thing.__code__.co_filename)
""",
        unproven="without a sandbox no code of this project has started it",
    ),
]

test_canary, test_contained = battery(ATTACKS)
