{ The program to guest.pas: blocks that one of them allocates are resized and freed by the other. SPDX-License-Identifier: MIT }
program host;

{$mode objfpc}{$H+}

uses
  heddlemm, cthreads, SysUtils, DynLibs;

type
  TAppend = procedure(var Text: string); cdecl;
  TMake = function(Size: PtrUInt): Pointer; cdecl;

var
  Guest: TLibHandle;
  Append: TAppend;
  Make: TMake;
  Text: string;
  P: Pointer;
  I: Integer;
  Used: PtrUInt;
begin
  Guest := LoadLibrary(ExtractFilePath(ParamStr(0)) + 'libguest.so');
  if Guest = NilHandle then begin
    WriteLn('host: ', GetLoadErrorStr);
    Halt(1);
  end;
  Append := TAppend(GetProcAddress(Guest, 'Append'));
  Make := TMake(GetProcAddress(Guest, 'Make'));
  Used := 0;
  for I := 1 to 2000 do begin
    Text := IntToStr(I);
    Append(Text);
    Text := Text + '.';
    if Copy(Text, 1, Pos(' ', Text) - 1) <> IntToStr(I) then Halt(2);
    P := Make(I * 17);
    ReallocMem(P, I * 40);
    FreeMem(P);
    Text := '';
    if I = 1000 then Used := GetFPCHeapStatus.CurrHeapUsed;
  end;
  if GetFPCHeapStatus.CurrHeapUsed > Used then Halt(3);
end.
