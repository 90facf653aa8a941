//! The few functions of the C interface of librados (`rados/librados.h`, version 16) that are called here.
//!
//! The library is opened when it is needed, so that this program runs, and compares with others, where Ceph is not installed.

#![expect(unsafe_code, reason = "librados is called through its C interface")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr,
    sync::Arc,
};

use libloading::Library;
use tokio::sync::oneshot;

use crate::system::Outcome;

type Handle = *mut c_void;
type Callback = extern "C" fn(Handle, *mut c_void);

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, and the library that they are in.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Functions {
            fn load() -> Outcome<Self> {
                // SAFETY: the library's initializers have no conditions.
                let library = unsafe { Library::new(LIBRARY) }
                    .map_err(|_| format!("{LIBRARY} is missing: install the Debian package librados2"))?;
                // SAFETY: the types are those of the header, and the library is kept as long as the functions.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    rados_create: fn(*mut Handle, *const c_char) -> c_int;
    rados_conf_read_file: fn(Handle, *const c_char) -> c_int;
    rados_connect: fn(Handle) -> c_int;
    rados_shutdown: fn(Handle);
    rados_mon_command: fn(
        Handle, *mut *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    rados_buffer_free: fn(*mut c_char);
    rados_ioctx_create: fn(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_destroy: fn(Handle);
    rados_aio_create_completion2: fn(*mut c_void, Callback, *mut Handle) -> c_int;
    rados_aio_get_return_value: fn(Handle) -> c_int;
    rados_aio_release: fn(Handle);
    rados_aio_write: fn(Handle, *const c_char, Handle, *const u8, usize, u64) -> c_int;
    rados_aio_write_full: fn(Handle, *const c_char, Handle, *const u8, usize) -> c_int;
    rados_aio_append: fn(Handle, *const c_char, Handle, *const u8, usize) -> c_int;
    rados_aio_read: fn(Handle, *const c_char, Handle, *mut u8, usize, u64) -> c_int;
    rados_aio_exec: fn(
        Handle, *const c_char, Handle, *const c_char, *const c_char, *const u8, usize, *mut u8, usize
    ) -> c_int;
    rados_create_write_op: fn() -> Handle;
    rados_release_write_op: fn(Handle);
    rados_write_op_cmpext: fn(Handle, *const u8, usize, u64, *mut c_int);
    rados_write_op_write: fn(Handle, *const u8, usize, u64);
    rados_aio_write_op_operate: fn(Handle, Handle, Handle, *const c_char, *mut c_void, c_int) -> c_int;
    rados_read: fn(Handle, *const c_char, *mut u8, usize, u64) -> c_int;
    rados_lock_exclusive: fn(
        Handle, *const c_char, *const c_char, *const c_char, *const c_char, *mut c_void, u8
    ) -> c_int;
    rados_aio_unlock: fn(Handle, *const c_char, *const c_char, *const c_char, Handle) -> c_int;
}

/// A connected client.
pub struct Client {
    functions: Arc<Functions>,
    handle: Handle,
}

/// A client in one of its pools. Its methods may be called on any thread.
pub struct Pool {
    client: Client,
    handle: Handle,
}

// SAFETY: the library locks what clients and pools share.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}
// SAFETY: as above.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// An operation that the library will end; it owns where a read goes.
struct Flight {
    functions: Arc<Functions>,
    buffer: Vec<u8>,
    told: oneshot::Sender<(c_int, Vec<u8>)>,
}

/// The result of an operation, negative if it failed, and its buffer.
type Landed = (c_int, Vec<u8>);

impl Client {
    /// Connects with a configuration file.
    pub fn connect(configuration: &CStr) -> Outcome<Self> {
        let functions = Arc::new(Functions::load()?);
        let mut handle = ptr::null_mut();
        // SAFETY: the pointers are valid for the calls, and the handle is initialized by the first.
        unsafe {
            check("rados_create", (functions.rados_create)(&mut handle, ptr::null()))?;
            let client = Client { functions, handle };
            let read = (client.functions.rados_conf_read_file)(handle, configuration.as_ptr());
            check("rados_conf_read_file", read)?;
            check("rados_connect", (client.functions.rados_connect)(handle))?;
            Ok(client)
        }
    }

    /// Has the monitors do something; what they answer.
    pub fn command(&self, json: &serde_json::Value) -> Outcome<Vec<u8>> {
        let text = CString::new(json.to_string())?;
        let mut commands = [text.as_ptr()];
        let (mut answer, mut answer_size) = (ptr::null_mut(), 0);
        let (mut status, mut status_size) = (ptr::null_mut(), 0);
        // SAFETY: the pointers are valid for the call; what it allocates is copied, then freed.
        unsafe {
            let result = (self.functions.rados_mon_command)(
                self.handle,
                commands.as_mut_ptr(),
                commands.len(),
                ptr::null(),
                0,
                &mut answer,
                &mut answer_size,
                &mut status,
                &mut status_size,
            );
            let answer = self.taken(answer, answer_size);
            let status = self.taken(status, status_size);
            let what = || format!("{json}: {}", String::from_utf8_lossy(&status));
            check(&what(), result)?;
            Ok(answer)
        }
    }

    /// # Safety
    ///
    /// The library has allocated these bytes, or the pointer is null.
    unsafe fn taken(&self, bytes: *mut c_char, size: usize) -> Vec<u8> {
        if bytes.is_null() {
            return Vec::new();
        }
        // SAFETY: the caller's.
        unsafe {
            let copy = std::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec();
            (self.functions.rados_buffer_free)(bytes);
            copy
        }
    }

    /// Goes on in a pool.
    pub fn pool(self, name: &CStr) -> Outcome<Pool> {
        let mut handle = ptr::null_mut();
        // SAFETY: the pointers are valid for the call.
        let result = unsafe { (self.functions.rados_ioctx_create)(self.handle, name.as_ptr(), &mut handle) };
        check("rados_ioctx_create", result)?;
        Ok(Pool { client: self, handle })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: the handle is from `rados_create`, and pools are gone before.
        unsafe { (self.functions.rados_shutdown)(self.handle) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the handle is from `rados_ioctx_create`.
        unsafe { (self.client.functions.rados_ioctx_destroy)(self.handle) }
    }
}

impl Pool {
    /// Writes at an offset.
    pub async fn write(&self, object: &CStr, offset: u64, payload: &[u8]) -> Outcome<()> {
        // SAFETY: the library copies payload and name before it returns.
        let begin = |functions: &Functions, completion, _: &mut Vec<u8>| unsafe {
            let (bytes, size) = (payload.as_ptr(), payload.len());
            (functions.rados_aio_write)(self.handle, object.as_ptr(), completion, bytes, size, offset)
        };
        self.fly("rados_aio_write", Vec::new(), begin).await.map(drop)
    }

    /// Makes the payload the whole object.
    pub async fn write_full(&self, object: &CStr, payload: &[u8]) -> Outcome<()> {
        // SAFETY: the library copies payload and name before it returns.
        let begin = |functions: &Functions, completion, _: &mut Vec<u8>| unsafe {
            let (bytes, size) = (payload.as_ptr(), payload.len());
            (functions.rados_aio_write_full)(self.handle, object.as_ptr(), completion, bytes, size)
        };
        self.fly("rados_aio_write_full", Vec::new(), begin).await.map(drop)
    }

    /// Appends.
    pub async fn append(&self, object: &CStr, payload: &[u8]) -> Outcome<()> {
        // SAFETY: the library copies payload and name before it returns.
        let begin = |functions: &Functions, completion, _: &mut Vec<u8>| unsafe {
            let (bytes, size) = (payload.as_ptr(), payload.len());
            (functions.rados_aio_append)(self.handle, object.as_ptr(), completion, bytes, size)
        };
        self.fly("rados_aio_append", Vec::new(), begin).await.map(drop)
    }

    /// Fills the buffer as far as the object has bytes, and tells how far that is.
    pub async fn read(&self, object: &CStr, offset: u64, buffer: Vec<u8>) -> Outcome<(usize, Vec<u8>)> {
        // SAFETY: the flight owns the buffer until the library has called back; the name is copied.
        let begin = |functions: &Functions, completion, buffer: &mut Vec<u8>| unsafe {
            let (bytes, size) = (buffer.as_mut_ptr(), buffer.len());
            (functions.rados_aio_read)(self.handle, object.as_ptr(), completion, bytes, size, offset)
        };
        let (size, buffer) = self.fly("rados_aio_read", buffer, begin).await?;
        Ok((usize::try_from(size)?, buffer))
    }

    /// Runs a function of a class that the servers have loaded.
    pub async fn execute(&self, object: &CStr, class: &CStr, method: &CStr, input: &[u8]) -> Outcome<()> {
        // SAFETY: the library copies names and input before it returns; there is no room for output.
        let begin = |functions: &Functions, completion, _: &mut Vec<u8>| unsafe {
            (functions.rados_aio_exec)(
                self.handle,
                object.as_ptr(),
                completion,
                class.as_ptr(),
                method.as_ptr(),
                input.as_ptr(),
                input.len(),
                ptr::null_mut(),
                0,
            )
        };
        self.fly("rados_aio_exec", Vec::new(), begin).await.map(drop)
    }

    /// Replaces the first bytes if they are as expected; whether they were.
    pub async fn compare_and_write(&self, object: &CStr, expected: &[u8], new: &[u8]) -> Outcome<bool> {
        // SAFETY: the library copies what is compared and written, and keeps what it needs of the operation that is released.
        let begin = |functions: &Functions, completion, _: &mut Vec<u8>| unsafe {
            let operation = (functions.rados_create_write_op)();
            let nowhere = ptr::null_mut();
            (functions.rados_write_op_cmpext)(operation, expected.as_ptr(), expected.len(), 0, nowhere);
            (functions.rados_write_op_write)(operation, new.as_ptr(), new.len(), 0);
            let name = object.as_ptr();
            let begun = (functions.rados_aio_write_op_operate)(
                operation,
                self.handle,
                completion,
                name,
                ptr::null_mut(),
                0,
            );
            (functions.rados_release_write_op)(operation);
            begun
        };
        let (result, _) = self.land(Vec::new(), begin).await?;
        if result <= MISMATCH {
            return Ok(false);
        }
        check("rados_aio_write_op_operate", result)?;
        Ok(true)
    }

    /// The 8 bytes at the beginning of the object; zero if it has none. Blocks.
    pub fn read_number(&self, object: &CStr) -> Outcome<i64> {
        let mut bytes = [0; 8];
        // SAFETY: the buffer is valid for the call.
        let result = unsafe {
            (self.client.functions.rados_read)(
                self.handle,
                object.as_ptr(),
                bytes.as_mut_ptr(),
                bytes.len(),
                0,
            )
        };
        if result == -NOT_FOUND {
            return Ok(0);
        }
        check("rados_read", result)?;
        Ok(i64::from_le_bytes(bytes))
    }

    /// Locks an object; whether it was free. Blocks.
    pub fn try_lock(&self, object: &CStr, cookie: &CStr) -> Outcome<bool> {
        let nothing: *mut c_void = ptr::null_mut();
        // SAFETY: the names are valid for the call; without a duration the lock is held until it is released.
        let result = unsafe {
            (self.client.functions.rados_lock_exclusive)(
                self.handle,
                object.as_ptr(),
                LOCK.as_ptr(),
                cookie.as_ptr(),
                c"".as_ptr(),
                nothing,
                0,
            )
        };
        if result == -BUSY {
            return Ok(false);
        }
        check("rados_lock_exclusive", result)?;
        Ok(true)
    }

    /// Unlocks an object.
    pub async fn unlock(&self, object: &CStr, cookie: &CStr) -> Outcome<()> {
        // SAFETY: the library copies the names before it returns.
        let begin = |functions: &Functions, completion, _: &mut Vec<u8>| unsafe {
            let (object, cookie) = (object.as_ptr(), cookie.as_ptr());
            (functions.rados_aio_unlock)(self.handle, object, LOCK.as_ptr(), cookie, completion)
        };
        self.fly("rados_aio_unlock", Vec::new(), begin).await.map(drop)
    }

    async fn fly(
        &self,
        what: &str,
        buffer: Vec<u8>,
        begin: impl FnOnce(&Functions, Handle, &mut Vec<u8>) -> c_int,
    ) -> Outcome<Landed> {
        let (result, buffer) = self.land(buffer, begin).await?;
        check(what, result)?;
        Ok((result, buffer))
    }

    async fn land(
        &self,
        buffer: Vec<u8>,
        begin: impl FnOnce(&Functions, Handle, &mut Vec<u8>) -> c_int,
    ) -> Outcome<Landed> {
        let landed = self.begin(buffer, begin)?;
        Ok(landed.await?)
    }

    fn begin(
        &self,
        buffer: Vec<u8>,
        begin: impl FnOnce(&Functions, Handle, &mut Vec<u8>) -> c_int,
    ) -> Outcome<oneshot::Receiver<Landed>> {
        let functions = &self.client.functions;
        let (told, hears) = oneshot::channel();
        let flight = Box::into_raw(Box::new(Flight { functions: functions.clone(), buffer, told }));
        let mut completion = ptr::null_mut();
        // SAFETY: the flight lives until the library calls back, which it does once for an operation that has begun.
        unsafe {
            let made = (functions.rados_aio_create_completion2)(flight.cast(), landed, &mut completion);
            check("rados_aio_create_completion2", made)?;
            let begun = begin(functions, completion, &mut (*flight).buffer);
            if begun < 0 {
                (functions.rados_aio_release)(completion);
                drop(Box::from_raw(flight));
            }
            check("an operation", begun)?;
        }
        Ok(hears)
    }
}

/// Called by the library on a thread of its own.
extern "C" fn landed(completion: Handle, flight: *mut c_void) {
    // SAFETY: the flight was made in `begin`, and this is called once for it; the completion is ours to release.
    unsafe {
        let Flight { functions, buffer, told } = *Box::from_raw(flight.cast::<Flight>());
        let result = (functions.rados_aio_get_return_value)(completion);
        (functions.rados_aio_release)(completion);
        // Nobody waits any more if the comparison has been interrupted.
        let _unheard = told.send((result, buffer));
    }
}

fn check(what: &str, result: c_int) -> Outcome<()> {
    if result >= 0 {
        return Ok(());
    }
    Err(format!("{what}: {}", std::io::Error::from_raw_os_error(-result)).into())
}

const LIBRARY: &str = "librados.so.2";
const LOCK: &CStr = c"bench";
const NOT_FOUND: c_int = 2;
const BUSY: c_int = 16;
/// A comparison of bytes fails with this number less the place where they differ.
const MISMATCH: c_int = -4095;
