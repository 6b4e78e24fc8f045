"""CUDA's driver by ctypes: memory, a stream, events, graphs of one GPU. Only what `rank.py` needs; every call is
checked. Python's standard library only."""

import ctypes

POINTER = ctypes.c_uint64
HANDLE = ctypes.c_void_p
THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads (NCCL's proxy) may do as they like


class CudaError(Exception):
    pass


class Gpu:
    """One GPU, its primary context made current, and a stream."""

    def __init__(self, device):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        handle, self.context, self.stream = ctypes.c_int(), HANDLE(), HANDLE()
        self.call("cuDeviceGet", ctypes.byref(handle), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), handle)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, handle)
        self.name = name.value.decode()

    def call(self, function, *arguments):
        status = getattr(self.driver, function)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorName(status, ctypes.byref(text))
            raise CudaError(f"{function}: {status} ({(text.value or b'?').decode()})")

    def allocate(self, size):
        pointer = POINTER()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def write(self, pointer, data):
        self.call("cuMemcpyHtoD_v2", POINTER(pointer), data, ctypes.c_size_t(len(data)))

    def read(self, pointer, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, POINTER(pointer), ctypes.c_size_t(size))
        return data.raw

    def fill(self, pointer, byte, size):
        self.call("cuMemsetD8_v2", POINTER(pointer), ctypes.c_ubyte(byte), ctypes.c_size_t(size))
        self.call("cuCtxSynchronize")

    def wait(self):
        self.call("cuStreamSynchronize", self.stream)

    def event(self):
        event = HANDLE()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def record(self, event):
        self.call("cuEventRecord", event, self.stream)

    def microseconds(self, start, end):
        time = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(time), start, end)
        return time.value * 1000

    def capture(self, work):
        """A graph of what `work` enqueues, ready to be launched."""
        graph, ready = HANDLE(), HANDLE()
        self.call("cuStreamBeginCapture_v2", self.stream, THREAD_LOCAL)
        try:
            work()
        finally:
            self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        return ready

    def launch(self, graph):
        self.call("cuGraphLaunch", graph, self.stream)

    def forget(self, graph):
        self.call("cuGraphExecDestroy", graph)
